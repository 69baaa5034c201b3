//go:build cgo

package ctest

/*
#cgo CFLAGS: -std=gnu11 -I${SRCDIR}/../../csrc/include
#include "ctest.h"
*/
import "C"

import "unsafe"

// Functions to spawn. See ctest.c for what each does with its argument.
var (
	Return          = unsafe.Pointer(C.ct_return)
	SleepNS         = unsafe.Pointer(C.ct_sleep_ns)
	SleepArray      = unsafe.Pointer(C.ct_sleep_array)
	SleepThrice     = unsafe.Pointer(C.ct_sleep_thrice)
	Errno           = unsafe.Pointer(C.ct_errno)
	CallGo          = unsafe.Pointer(C.ct_call_go)
	CallGoDeep      = unsafe.Pointer(C.ct_call_go_deep)
	ReadFD          = unsafe.Pointer(C.ct_read_fd)
	Recurse         = unsafe.Pointer(C.ct_recurse)
	Spin            = unsafe.Pointer(C.ct_spin)
	BlockRead       = unsafe.Pointer(C.ct_block_read)
	Fib             = unsafe.Pointer(C.ct_fib)
	ParkForever     = unsafe.Pointer(C.ct_park_forever)
	Count           = unsafe.Pointer(C.ct_count)
	YieldPair       = unsafe.Pointer(C.ct_yield_pair)
	SpawnJoin       = unsafe.Pointer(C.ct_spawn_join)
	CallGoLoop      = unsafe.Pointer(C.ct_call_go_loop)
	CloseFD         = unsafe.Pointer(C.ct_close_fd)
	YieldUntil      = unsafe.Pointer(C.ct_yield_until)
	ReadUntil       = unsafe.Pointer(C.ct_read_until)
	SpawnAndSpin    = unsafe.Pointer(C.ct_spawn_and_spin)
	CountMoves      = unsafe.Pointer(C.ct_count_moves)
	RecurseAndSleep = unsafe.Pointer(C.ct_recurse_and_sleep)
	RecurseLarge    = unsafe.Pointer(C.ct_recurse_large)
	SleepFive       = unsafe.Pointer(C.ct_sleep_five)
	SleepLate       = unsafe.Pointer(C.ct_sleep_late)
	YieldLoop       = unsafe.Pointer(C.ct_yield_loop)
)

// WithNumber returns a function and its argument, to spawn, which make a fiber call fn with n. (A
// number must not be passed as a pointer: Go's runtime ends a program that has one below 4,096
// on a goroutine's stack, if it comes to look.)
func WithNumber(fn unsafe.Pointer, n int) (apply, arg unsafe.Pointer) {
	return unsafe.Pointer(C.ct_apply), unsafe.Pointer(&struct {
		fn unsafe.Pointer
		n  int
	}{fn, n})
}

// A GoFunc is called by CallGo, with its argument.
type GoFunc func(arg uintptr) uintptr

// Callback is what C calls; set it before.
var Callback GoFunc

//export ctestCallback
func ctestCallback(arg C.uintptr_t) C.uintptr_t {
	return C.uintptr_t(Callback(uintptr(arg)))
}

// CallNoFiber calls a C function on a plain thread, without a fiber.
func CallNoFiber(fn, arg unsafe.Pointer) int {
	return int(C.ct_call((*[0]byte)(fn), arg))
}
