//go:build cgo

// Package switchbench measures bare context switches, in C: cfiber's, the best
// six-register switch that inline assembly gives (the limit), swapcontext, and,
// built with -tags boost, that of Boost.Context.
package switchbench

/*
#cgo CFLAGS: -std=gnu11 -O2 -I${SRCDIR}/../../csrc
#include "switchbench.h"
*/
import "C"

import _ "github.com/cfiber/cfiber/csrc"

// Each makes n switches, one way, between two contexts.
func cfiberSwitch(n int)   { C.sb_cfiber(C.long(n)) }
func sixRegisters(n int)   { C.sb_six(C.long(n)) }
func threeRegisters(n int) { C.sb_three(C.long(n)) }
func swapcontext(n int)    { C.sb_swapcontext(C.long(n)) }
