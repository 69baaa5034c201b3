//go:build cgo

package ctest

// #include "invariants.h"
import "C"

import "unsafe"

// Functions to spawn. See invariants.c for what each does with its argument.
var (
	ErrnoOverGo       = unsafe.Pointer(C.ct_errno_over_go)
	ReadByte          = unsafe.Pointer(C.ct_read_byte)
	SleepAndCount     = unsafe.Pointer(C.ct_sleep_and_count)
	ShieldedSleep     = unsafe.Pointer(C.ct_shielded_sleep)
	LeaveBehind       = unsafe.Pointer(C.ct_leave_behind)
	SpawnWhenCanceled = unsafe.Pointer(C.ct_spawn_when_canceled)
	RecurseAndPark    = unsafe.Pointer(C.ct_recurse_and_park)
)
