//go:build cgo

package fiber

// #include "wake.h"
import "C"

import (
	"context"
	"errors"
	"time"
	"unsafe"

	"github.com/cfiber/cfiber"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/subjects"
)

func wake(t *subjects.T) error {
	n := max(t.N(), 2)
	switch mode := t.Text("mode"); mode {
	case "same":
		return wakePair(t, C.PAIR_SAME, 1, n)
	case "awake":
		return wakePair(t, C.PAIR_AWAKE, 2, n)
	case "sleeping":
		return wakePair(t, C.PAIR_SLEEPING, 2, n)
	case "goroutine":
		return wakeFromGoroutine(t, n)
	default:
		return subjects.UnsupportedError("no mode " + mode)
	}
}

func wakePair(t *subjects.T, mode C.int, threads, n int) error {
	p := C.pair_new(mode, C.int64_t(n))
	defer C.pair_free(p)
	rt, err := cfiber.New(cfiber.Options{Threads: threads})
	if err != nil {
		return err
	}
	left, err := rt.Spawn(C.pair_left, unsafe.Pointer(p))
	if err != nil {
		return err
	}
	right, err := rt.Spawn(C.pair_right, unsafe.Pointer(p))
	if err != nil {
		return err
	}
	for _, f := range []*cfiber.Fiber{left, right} {
		result, err := f.Wait(context.Background())
		if err != nil {
			return err
		}
		if result != 0 {
			return errors.New("the fibers were not on the threads that the mode wants")
		}
	}
	t.PerOp(time.Duration(C.pair_ns(p)), n/2*2)
	return rt.Close()
}

var answers = make(chan struct{}, 1)

//export benchAnswer
func benchAnswer() { answers <- struct{}{} }

// wakeFromGoroutine has a goroutine wake a fiber by a call of C, and the fiber the goroutine by
// a call of Go.
func wakeFromGoroutine(t *subjects.T, n int) error {
	p := C.pair_new(C.PAIR_SAME, C.int64_t(n))
	defer C.pair_free(p)
	rt, err := cfiber.New(cfiber.Options{Threads: 1})
	if err != nil {
		return err
	}
	f, err := rt.Spawn(C.pair_answer, unsafe.Pointer(p))
	if err != nil {
		return err
	}
	begin := time.Now()
	for range n / 2 {
		C.pair_ask(p)
		<-answers
	}
	t.PerOp(time.Since(begin), n/2*2)
	if _, err := f.Wait(context.Background()); err != nil {
		return err
	}
	return rt.Close()
}
