//go:build cgo

package ctest

// #include "callbacks.h"
import "C"

import "unsafe"

// Functions that call the C function that they are given. See callbacks.c.
var (
	CallSix        = unsafe.Pointer(C.ct_call_six)
	CallNarrow     = unsafe.Pointer(C.ct_call_narrow)
	CallFromThread = unsafe.Pointer(C.ct_call_from_thread)
	CallOverWaits  = unsafe.Pointer(C.ct_call_over_waits)
	CallLoop       = unsafe.Pointer(C.ct_call_loop)
	FrameAddress   = unsafe.Pointer(C.ct_frame_address)
)
