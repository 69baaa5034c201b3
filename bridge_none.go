//go:build !cgo && !((darwin && !ios && (amd64 || arm64)) || (freebsd && (amd64 || arm64)) || (netbsd && (amd64 || arm64)) || (linux && !android && (amd64 || arm64 || loong64 || ppc64le || riscv64)))

package cfiber

import (
	"syscall"
	"unsafe"
)

// Without cgo, on a system that bridge_purego.go does not serve, there is no C
// core: New fails with ErrNoCgo, so none of the others is ever called.

func bridgeLoad(op, _ string) (map[string]fieldLayout, error) {
	return nil, &Error{Op: op, Err: ErrNoCgo, Hint: "build with CGO_ENABLED=1 and a C compiler"}
}

func bridgeLayout() map[string]fieldLayout                                  { return nil }
func bridgeVersion() uint32                                                 { return 0 }
func bridgeOpen(_, _, _ uint32, _ bool, _ uint64, _ int) (*cRuntime, error) { return nil, ErrNoCgo }

func bridgeClose(*cRuntime)                                         {}
func bridgeThreadInit(*cRuntime, uint32)                            {}
func bridgeThreadRun(*cThread) error                                { return ErrNoCgo }
func bridgeCPUTime(*cThread) int64                                  { return -1 }
func bridgeServe(*cThread)                                          {}
func bridgeBalance(*cRuntime) int64                                 { return 0 }
func bridgeCancelAll(*cRuntime)                                     {}
func bridgeTakeCanceled(*cRuntime) *cFiber                          { return nil }
func bridgeFiberAlloc(_ *cRuntime, _ []unsafe.Pointer) (int, error) { return 0, ErrNoCgo }
func bridgeFiberFree(*cRuntime, []unsafe.Pointer)                   {}
func bridgeIDBlock(uint32) uint64                                   { return 0 }
func bridgeCurrent() *cFiber                                        { return nil }
func bridgeSymbol(uintptr) string                                   { return "" }
func bridgeCallback(uint32) unsafe.Pointer                          { return nil }
func bridgeFault(_ int, _ syscall.Errno, _, _ uint32)               {}
func bridgeNothing()                                                {}
