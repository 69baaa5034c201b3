//go:build cgo

package cfiber

// This file alone calls C. Everything else that is shared with C is memory,
// read and written through sync/atomic; see layout.go.

/*
#cgo CFLAGS: -std=gnu11 -O2 -I${SRCDIR}/csrc
#cgo noescape cfiber_layout
#cgo nocallback cfiber_layout
#cgo noescape cfiber_bridge_open
#cgo nocallback cfiber_bridge_open
#cgo nocallback cfiber_bridge_close
#cgo nocallback cfiber_bridge_thread_init
#cgo nocallback cfiber_bridge_cpu_time
#cgo nocallback cfiber_bridge_serve
#cgo nocallback cfiber_bridge_balance
#cgo nocallback cfiber_bridge_cancel_all
#cgo nocallback cfiber_bridge_take_canceled
#cgo noescape cfiber_bridge_fiber_alloc
#cgo nocallback cfiber_bridge_fiber_alloc
#cgo noescape cfiber_bridge_fiber_free
#cgo nocallback cfiber_bridge_fiber_free
#cgo nocallback cfiber_id_block
#cgo nocallback cfiber_bridge_current
#cgo noescape cfiber_bridge_symbol
#cgo nocallback cfiber_bridge_symbol
#cgo nocallback cfiber_version
#cgo nocallback cfiber_bridge_callback
#cgo nocallback cfiber_bridge_fault
#cgo nocallback cfiber_bridge_nothing
#include "bridge.h"

extern void cfiberCallGo(void *call);
*/
import "C"

import (
	"bytes"
	"errors"
	"sync"
	"syscall"
	"unsafe"

	_ "github.com/cfiber/cfiber/csrc"
)

func errnoOf(e C.int) error {
	if e == 0 {
		return nil
	}
	return syscall.Errno(e)
}

// bridgeLayout returns the C side's table of the shared memory.
func bridgeLayout() map[string]fieldLayout {
	var n C.size_t
	table := unsafe.Slice(C.cfiber_layout(&n), n)
	m := make(map[string]fieldLayout, n)
	for _, e := range table {
		m[C.GoString(e.name)] = fieldLayout{uintptr(e.offset), uintptr(e.size)}
	}
	return m
}

// bridgeLoad returns the C side's table, which it has compared with Go's.
func bridgeLoad(op, library string) (map[string]fieldLayout, error) {
	if library != "" {
		return nil, &Error{Op: op, Err: both{ErrInvalid, errors.New("Options.Library in a program with cgo")},
			Hint: "leave it empty: the C core is in the program"}
	}
	layout, err := checkLayout()
	if err != nil {
		return nil, &Error{Op: op, Err: both{ErrMismatch, err}}
	}
	return layout, nil
}

var checkLayout = sync.OnceValues(func() (map[string]fieldLayout, error) {
	layout := bridgeLayout()
	return layout, matchLayout(layout)
})

// bridgeVersion returns the version of the C side.
func bridgeVersion() uint32 { return uint32(C.cfiber_version()) }

func bridgeOpen(allocated, limit, maxFibers uint32, migrate bool, stackSize uint64, notifyFD int) (*cRuntime, error) {
	var p unsafe.Pointer
	var m C.uint32_t
	if migrate {
		m = 1
	}
	e := C.cfiber_bridge_open(C.uint32_t(allocated), C.uint32_t(limit), C.uint32_t(maxFibers), m,
		C.uint64_t(stackSize), C.int32_t(notifyFD), &p)
	return (*cRuntime)(p), errnoOf(e)
}

func bridgeClose(rt *cRuntime) { C.cfiber_bridge_close(unsafe.Pointer(rt)) }

func bridgeThreadInit(rt *cRuntime, index uint32) {
	C.cfiber_bridge_thread_init(unsafe.Pointer(rt), C.uint32_t(index))
}

// bridgeThreadRun runs fibers on the calling thread until the runtime stops.
// It is the one function here that calls back into Go.
func bridgeThreadRun(t *cThread) error {
	return errnoOf(C.cfiber_bridge_thread_run(unsafe.Pointer(t)))
}

// bridgeCPUTime returns the thread's CPU time in nanoseconds, -1 if unknown.
func bridgeCPUTime(t *cThread) int64 {
	return int64(C.cfiber_bridge_cpu_time(unsafe.Pointer(t)))
}

func bridgeServe(t *cThread) { C.cfiber_bridge_serve(unsafe.Pointer(t)) }

func bridgeBalance(rt *cRuntime) int64 { return int64(C.cfiber_bridge_balance(unsafe.Pointer(rt))) }

func bridgeCancelAll(rt *cRuntime) { C.cfiber_bridge_cancel_all(unsafe.Pointer(rt)) }

// bridgeTakeCanceled returns a list of fibers that nobody else will run.
func bridgeTakeCanceled(rt *cRuntime) *cFiber {
	return (*cFiber)(C.cfiber_bridge_take_canceled(unsafe.Pointer(rt)))
}

// bridgeFiberAlloc fills out with free records and returns how many there were.
func bridgeFiberAlloc(rt *cRuntime, out []unsafe.Pointer) (int, error) {
	var e C.int
	n := C.cfiber_bridge_fiber_alloc(unsafe.Pointer(rt), C.uint32_t(len(out)), &out[0], &e)
	if n == 0 {
		return 0, errnoOf(e)
	}
	return int(n), nil
}

func bridgeFiberFree(rt *cRuntime, records []unsafe.Pointer) {
	C.cfiber_bridge_fiber_free(unsafe.Pointer(rt), C.uint32_t(len(records)), &records[0])
}

// bridgeIDBlock returns the first of n ids that nobody else gets.
func bridgeIDBlock(n uint32) uint64 { return uint64(C.cfiber_id_block(C.uint32_t(n))) }

// bridgeCurrent returns the fiber that the calling goroutine has been called
// from, or nil.
func bridgeCurrent() *cFiber { return (*cFiber)(C.cfiber_bridge_current()) }

// bridgeSymbol returns the name of the C function at an address, "" if unknown.
func bridgeSymbol(address uintptr) string {
	var name [128]byte
	if C.cfiber_bridge_symbol(C.uintptr_t(address), (*C.char)(unsafe.Pointer(&name)), C.size_t(len(name))) == 0 {
		return ""
	}
	return string(name[:bytes.IndexByte(name[:], 0)])
}

// bridgeCallback returns the C function that calls the callback in that slot.
func bridgeCallback(slot uint32) unsafe.Pointer {
	return C.cfiber_bridge_callback(C.uint32_t(slot), (*[0]byte)(C.cfiberCallGo))
}

//export cfiberCallGo
func cfiberCallGo(call unsafe.Pointer) { dispatchCallback((*cCall)(call)) }

// bridgeFault arms fault injection; see csrc/fault.h.
func bridgeFault(site int, e syscall.Errno, first, count uint32) {
	C.cfiber_bridge_fault(C.int(site), C.int(e), C.uint32_t(first), C.uint32_t(count))
}

// bridgeNothing is a cgo call, which orders memory for the race detector.
func bridgeNothing() { C.cfiber_bridge_nothing() }
