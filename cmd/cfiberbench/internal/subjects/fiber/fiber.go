//go:build cgo

package fiber

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -I${SRCDIR}/../../../../../csrc/include -I${SRCDIR}/../../../../../csrc
#include "units.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"github.com/cfiber/cfiber"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/subjects"
	"github.com/cfiber/cfiber/internal/switchbench"
)

func init() {
	const pending = "cfiber does not have it yet"
	subjects.Register(&subjects.Subject{
		Name:  "cfiber",
		About: "C functions on fibers",
		Workloads: map[string]subjects.Func{
			"switch": bareSwitch(switchbench.CFiber), "yield": yield, "spawn": spawn, "tree": tree,
			"memory": memory, "wake": wake, "call": calls, "callback": callback, "timers": timers,
			"echo": echo, "redis": redis,
		},
		Lacks: map[string]string{
			"coroutine": pending, "seq": pending, "chan": pending, "mutex": pending,
		},
	})
	subjects.Register(&subjects.Subject{
		Name:  "cgo",
		About: "plain cgo calls of the same C functions, and their calls of Go",
		Workloads: map[string]subjects.Func{
			"call": plainCalls, "callback": plainCallback,
		},
	})
	subjects.Register(&subjects.Subject{
		Name:      "inline-six",
		About:     "limit: a switch of six registers in inline assembly",
		Workloads: map[string]subjects.Func{"switch": bareSwitch(switchbench.SixRegisters)},
	})
	subjects.Register(&subjects.Subject{
		Name:      "inline-three",
		About:     "limit: a switch of three registers, the compiler saves what it uses",
		Workloads: map[string]subjects.Func{"switch": bareSwitch(switchbench.ThreeRegisters)},
	})
}

func bareSwitch(run func(int)) subjects.Func {
	return func(t *subjects.T) error {
		n := t.N()
		begin := time.Now()
		run(n)
		t.PerOp(time.Since(begin), n)
		return nil
	}
}

// onFibers opens a runtime of so many threads, runs fn(arg) on a fiber of it, and closes it.
// What fn returns must be 0.
func onFibers(threads int, fn, arg unsafe.Pointer) error {
	rt, err := cfiber.New(cfiber.Options{Threads: threads})
	if err != nil {
		return err
	}
	if err := call(rt, fn, arg); err != nil {
		return err
	}
	return rt.Close()
}

func call(rt *cfiber.Runtime, fn, arg unsafe.Pointer) error {
	result, err := rt.Call(context.Background(), fn, arg)
	if err == nil && result != 0 {
		err = errors.New("the C function failed")
	}
	return err
}

func perOp(t *subjects.T, w *C.struct_work) {
	t.PerOp(time.Duration(w.ns), int(w.n))
}

func yield(t *subjects.T) error {
	fibers := t.Int("fibers", 2)
	n := max(t.N()/fibers, 1) * fibers
	w := &C.struct_work{n: C.int64_t(n), fibers: C.int64_t(fibers)}
	if err := onFibers(t.Threads(1), C.bench_yield, unsafe.Pointer(w)); err != nil {
		return err
	}
	perOp(t, w)
	return nil
}

func spawn(t *subjects.T) error {
	fn := unsafe.Pointer(C.bench_spawn_warm)
	if t.Text("mode") == "cold" {
		fn = C.bench_spawn_cold
	}
	w := &C.struct_work{n: C.int64_t(t.N())}
	if err := onFibers(t.Threads(1), fn, unsafe.Pointer(w)); err != nil {
		return err
	}
	perOp(t, w)
	return nil
}

func tree(t *subjects.T) error {
	n := t.N()
	root := &C.struct_node{n: C.int64_t(n), fanout: C.int64_t(t.Int("fanout", 10))}
	rt, err := cfiber.New(cfiber.Options{Threads: t.Threads(runtime.NumCPU())})
	if err != nil {
		return err
	}
	begin := time.Now()
	sum, err := rt.Call(context.Background(), C.bench_tree, unsafe.Pointer(root))
	if err != nil {
		return err
	}
	t.PerOp(time.Since(begin), n)
	if want := n * (n - 1) / 2; sum != want {
		return fmt.Errorf("the sum is %d, not %d", sum, want)
	}
	return rt.Close()
}

// memory takes the smallest stacks, as whoever parks very many would: the page tables
// of a stack are an eighth of its own page with the default of 256 KiB, and nothing to
// speak of with 16 KiB.
func memory(t *subjects.T) error {
	rt, err := cfiber.New(cfiber.Options{StackSize: 16 << 10})
	if err != nil {
		return err
	}
	w := &C.struct_work{n: C.int64_t(t.N())}
	if err := call(rt, C.bench_park, unsafe.Pointer(w)); err != nil {
		return err
	}
	t.Say("PARKED")
	t.UntilClosed() // the process ends with its fibers: closing would take as long as starting
	return nil
}
