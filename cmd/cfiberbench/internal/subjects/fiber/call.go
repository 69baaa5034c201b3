//go:build cgo

package fiber

// #include "call.h"
import "C"

import (
	"context"
	"errors"
	"runtime/debug"
	"time"
	"unsafe"

	"github.com/cfiber/cfiber"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/subjects"
)

//export benchCalled
func benchCalled() {}

func callback(t *subjects.T) error {
	n := t.N()
	rt, err := cfiber.New(cfiber.Options{Threads: 1})
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := call(rt, C.bench_call_go, integer(n)); err != nil {
		return err
	}
	t.PerOp(time.Since(begin), n)
	return rt.Close()
}

func plainCallback(t *subjects.T) error {
	n := t.N()
	begin := time.Now()
	C.bench_call_go(integer(n))
	t.PerOp(time.Since(begin), n)
	return nil
}

// integer is a number as an argument of a C function.
func integer(n int) unsafe.Pointer {
	var p unsafe.Pointer
	*(*int)(unsafe.Pointer(&p)) = n
	return p
}

func newLoad(t *subjects.T) *subjects.CallLoad {
	load := subjects.NewCallLoad(t)
	load.InFlight = func() int { return int(C.bench_waiting()) }
	return load
}

func calls(t *subjects.T) error {
	load := newLoad(t)
	rt, err := cfiber.New(cfiber.Options{})
	if err != nil {
		return err
	}
	ctx, ns := context.Background(), integer(int(load.Sleep))
	if err := load.Run(func() error {
		_, err := rt.Call(ctx, C.bench_wait, ns)
		return err
	}); err != nil {
		return err
	}
	return rt.Close()
}

func plainCalls(t *subjects.T) error {
	load := newLoad(t)
	debug.SetMaxThreads(load.Concurrency + 10_000) // each call in flight holds one
	ns := integer(int(load.Sleep))
	return load.Run(func() error {
		if C.bench_wait(ns) != 0 {
			return errors.New("the C function failed")
		}
		return nil
	})
}
