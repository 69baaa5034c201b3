//go:build cgo && boost

package switchbench

/*
#cgo CFLAGS: -std=gnu11 -O2 -DSWITCHBENCH_BOOST
#cgo LDFLAGS: -lboost_context
#include "switchbench.h"
*/
import "C"

func init() { boost = func(n int) { C.sb_boost(C.long(n)) } }
