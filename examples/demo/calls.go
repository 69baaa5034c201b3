package main

/*
#cgo CFLAGS: -Wall -I${SRCDIR}/../../csrc/include
#include <stdlib.h>
#include "call.h"
*/
import "C"

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/cfiber/cfiber"
)

const (
	pause  = 100 * time.Millisecond
	pauses = 3
)

// callsResult is what n C calls at once came to.
type callsResult struct {
	Calls    int
	Gathered time.Duration // until all were in C
	Wall     time.Duration // until all had returned
	Threads  int           // the most there were
	Bytes    int64         // resident, of all calls together, at the most
}

// callsOnFibers makes n calls at once on fibers.
func callsOnFibers(n int, report func(string)) (callsResult, error) {
	rt, err := cfiber.New(cfiber.Options{})
	if err != nil {
		return callsResult{}, err
	}
	defer rt.Close()
	return makeCalls(n, report, func(call *C.struct_call) (int, error) {
		return rt.Call(context.Background(), unsafe.Pointer(C.call_on_fiber), unsafe.Pointer(call))
	})
}

// callsOnThreads makes n calls at once as cgo makes them: each keeps a thread.
func callsOnThreads(n int, report func(string)) (callsResult, error) {
	debug.SetMaxThreads(n + 10_000)
	return makeCalls(n, report, func(call *C.struct_call) (int, error) {
		return int(C.call_on_thread(unsafe.Pointer(call))), nil
	})
}

// makeCalls makes n calls, each from a goroutine of its own, which go on once
// all are in C. It checks what each returns and that each has called Go.
func makeCalls(n int, report func(string), do func(*C.struct_call) (int, error)) (callsResult, error) {
	memory := C.calloc(C.size_t(n), C.sizeof_struct_call)
	defer C.free(memory)
	calls := unsafe.Slice((*C.struct_call)(memory), n)
	for i := range calls {
		calls[i] = C.struct_call{id: C.uintptr_t(i), pause_ns: C.int64_t(pause), pauses: pauses}
	}

	if errno := C.calls_expect(C.int(n)); errno != 0 {
		return callsResult{}, syscall.Errno(errno)
	}
	runtime.GC()
	var done, wrong atomic.Int64
	var firstErr atomic.Pointer[error]
	m := startMeter(func(elapsed time.Duration) {
		what, number := "have returned", done.Load()
		if missing := int64(C.calls_missing()); missing > 0 {
			what, number = "are in C", int64(n)-missing
		}
		report(fmt.Sprintf("%s of %s %s, %s", count(number), count(int64(n)), what, seconds(elapsed)))
	})
	start := time.Now()
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			result, err := do(&calls[i])
			if err != nil {
				firstErr.CompareAndSwap(nil, &err)
			}
			if err != nil || result != answer(uint64(i)) {
				wrong.Add(1)
			}
			done.Add(1)
		})
	}
	wg.Wait()
	wall := time.Since(start)
	threads, bytes := m.stop()

	if wrong.Load() > 0 {
		err := errors.New("they did not return what Go told them")
		return callsResult{}, fmt.Errorf("%d calls failed: %w", wrong.Load(), *cmp.Or(firstErr.Load(), &err))
	}
	if called.Load() != int64(n) || calledBy.Load() != uint64(n)*uint64(n-1)/2 {
		return callsResult{}, fmt.Errorf("%d calls, but Go was called %d times", n, called.Load())
	}
	return callsResult{
		Calls:    n,
		Gathered: time.Duration(C.calls_gathered_ns()),
		Wall:     wall,
		Threads:  threads,
		Bytes:    bytes,
	}, nil
}

// probeResult is how many threads the system lets a process have.
type probeResult struct {
	Threads int
	Elapsed time.Duration // what starting and ending them took
}

// probeThreads tries to have n threads.
func probeThreads(n int) probeResult {
	start := time.Now()
	threads := int(C.threads_possible(C.int(n)))
	return probeResult{threads, time.Since(start)}
}
