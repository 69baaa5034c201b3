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

// CFiber makes n switches, one way, between two contexts.
func CFiber(n int) { C.sb_cfiber(C.long(n)) }

// SixRegisters does the same with what inline assembly gives, as a limit.
func SixRegisters(n int) { C.sb_six(C.long(n)) }

// ThreeRegisters leaves it to the compiler to save what it uses.
func ThreeRegisters(n int) { C.sb_three(C.long(n)) }

// Swapcontext is the C library's; nil where it has none.
var Swapcontext = func() func(int) {
	if C.sb_has_swapcontext == 0 {
		return nil
	}
	return func(n int) { C.sb_swapcontext(C.long(n)) }
}()
