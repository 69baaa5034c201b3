//go:build !cgo

package cfiber

import (
	"syscall"
	"unsafe"
)

const haveBridge = false

// Without cgo there is no C core in the program: New fails with ErrNoCgo, so
// none of these is ever called.

func bridgeLayout() map[string]fieldLayout { return nil }

func bridgeOpen(_, _, _ uint32, _ bool, _ uint64, _ int) (*cRuntime, error) { return nil, ErrNoCgo }

func bridgeClose(*cRuntime)                                         {}
func bridgeThreadInit(*cRuntime, uint32)                            {}
func bridgeThreadRun(*cThread) error                                { return ErrNoCgo }
func bridgeCPUTime(*cThread) int64                                  { return -1 }
func bridgeServe(*cThread)                                          {}
func bridgeBalance(*cRuntime) int64                                 { return 0 }
func bridgeCancelAll(*cRuntime)                                     {}
func bridgeFiberAlloc(_ *cRuntime, _ []unsafe.Pointer) (int, error) { return 0, ErrNoCgo }
func bridgeFiberFree(*cRuntime, []unsafe.Pointer)                   {}
func bridgeIDBlock(uint32) uint64                                   { return 0 }
func bridgeCurrent() *cFiber                                        { return nil }
func bridgeSymbol(uintptr) string                                   { return "" }
func bridgeFault(_ int, _ syscall.Errno, _, _ uint32)               {}
func bridgeNothing()                                                {}
