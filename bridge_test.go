package cfiber

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/cfiber/cfiber/internal/ctest"
)

// open opens a runtime that is closed at the end of the test.
func openTest(t testing.TB, opts Options) *Runtime {
	t.Helper()
	if opts.CloseTimeout == 0 {
		opts.CloseTimeout = time.Minute // a loaded machine is not a defect
	}
	rt, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt
}

// A number is an argument of call or spawn; see ctest.WithNumber.
type number int

// with returns what to spawn for fn to be called with arg: a number, a pointer, or nil.
func with(fn unsafe.Pointer, arg any) (unsafe.Pointer, unsafe.Pointer) {
	switch arg := arg.(type) {
	case nil:
		return fn, nil
	case number:
		return ctest.WithNumber(fn, int(arg))
	default:
		return fn, arg.(unsafe.Pointer)
	}
}

func call(t testing.TB, rt *Runtime, fn unsafe.Pointer, arg any, attr ...Attr) int {
	t.Helper()
	fn, pointer := with(fn, arg)
	n, err := rt.Call(context.Background(), fn, pointer, attr...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// spinning spawns a fiber that computes until stop is called, at the latest at the end of the test.
func spinning(t testing.TB, rt *Runtime) (f *Fiber, stop func()) {
	t.Helper()
	var stopped int32
	stop = func() { atomic.StoreInt32(&stopped, 1) }
	t.Cleanup(stop)
	return spawn(t, rt, ctest.Spin, unsafe.Pointer(&stopped)), stop
}

func spawn(t testing.TB, rt *Runtime, fn unsafe.Pointer, arg any, attr ...Attr) *Fiber {
	t.Helper()
	fn, pointer := with(fn, arg)
	f, err := rt.Spawn(fn, pointer, attr...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCallReturns(t *testing.T) {
	rt := openTest(t, Options{})
	for _, n := range []int{0, 1, -1, 42, math.MaxInt} {
		if got := call(t, rt, ctest.Return, number(n)); got != n {
			t.Errorf("got %d, want %d", got, n)
		}
	}
}

func TestFib(t *testing.T) {
	rt := openTest(t, Options{Threads: 8})
	if got := call(t, rt, ctest.Fib, number(20)); got != 6765 {
		t.Errorf("fib(20) = %d", got)
	}
}

func TestCallbackIntoGo(t *testing.T) {
	rt := openTest(t, Options{})
	var sum atomic.Int64
	ctest.Callback = func(arg uintptr) uintptr {
		growStack(64)
		runtime.GC()
		func() {
			defer func() { recover() }()
			panic("recovered")
		}()
		ch := make(chan int)
		go func() { ch <- 1 }()
		<-ch
		sum.Add(int64(arg))
		return arg + 1
	}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if got := call(t, rt, ctest.CallGo, number(i)); got != i+1 {
				t.Errorf("got %d", got)
			}
			if got := call(t, rt, ctest.CallGoDeep, number(i)); got != i+1 {
				t.Errorf("got %d", got)
			}
		})
	}
	wg.Wait()
}

//go:noinline
func growStack(n int) int {
	var frame [1024]byte
	frame[n] = 1
	if n == 0 {
		return 0
	}
	return growStack(n-1) + int(frame[n])
}
