package cfiber

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/cfiber/cfiber/internal/ctest"
)

// newCallback makes a callback that is freed at the end of the test.
func newCallback(t testing.TB, fn any) unsafe.Pointer {
	t.Helper()
	f, err := NewCallback(fn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { FreeCallback(f) })
	return f
}

// Arguments and results of all kinds, called on a fiber and on a plain thread.
func TestCallbackArguments(t *testing.T) {
	rt := openTest(t, Options{})
	const one = 0x10001 // see ct_call_six
	var called bool
	for name, c := range map[string]struct {
		caller unsafe.Pointer
		fn     any
		want   int64
	}{
		"six": {ctest.CallSix, func(a, b, c, d, e, f int64) int64 {
			return a + 10*b + 100*c + 1000*d + 10000*e + 100000*f
		}, 654321 * one},
		"mixed": {ctest.CallSix, func(a int, b uint64, c uintptr, d unsafe.Pointer, e bool, f *byte) uint {
			if e && uintptr(unsafe.Pointer(f)) == 6*one {
				return uint(a) + uint(b) + uint(c) + uint(uintptr(d))
			}
			return 0
		}, 10 * one},
		"fewer":      {ctest.CallSix, func(a, b int32) int32 { return -a - b }, -3 * one},
		"bool":       {ctest.CallSix, func(a int) bool { return a == one }, 1},
		"pointer":    {ctest.CallSix, func(p unsafe.Pointer) unsafe.Pointer { return p }, one},
		"no result":  {ctest.CallSix, func(int) { called = true }, 0},
		"nothing":    {ctest.CallSix, func() { called = true }, 0},
		"word":       {ctest.CallSix, func(a uintptr) uintptr { return a + 1 }, one + 1},
		"entry":      {ctest.CallSix, func(a unsafe.Pointer) int { return -int(uintptr(a)) }, -one},
		"named type": {ctest.CallSix, ctest.GoFunc(func(a uintptr) uintptr { return a + 2 }), one + 2},
		"narrow": {ctest.CallNarrow, func(a int8, b uint8, c int16, d uint16, e int32, f uint32) int8 {
			if a == -0x80 && b == 0x80 && c == -0x7f80 && d == 0x8080 && e == -0x7f7f7f80 && f == 0x80808080 {
				return -7
			}
			return 0
		}, -7},
		"over waits": {ctest.CallOverWaits, func(a uintptr) uintptr { return a * 10 }, 450},
	} {
		fn := newCallback(t, c.fn)
		if got := int64(call(t, rt, c.caller, fn)); got != c.want {
			t.Errorf("%s, on a fiber: %d, want %d", name, got, c.want)
		}
		if got := int64(ctest.CallNoFiber(c.caller, fn)); got != c.want {
			t.Errorf("%s, on a thread: %d, want %d", name, got, c.want)
		}
	}
	if !called {
		t.Error("a function without result was not called")
	}
}

// What Go does at its worst, in a callback from the smallest of stacks.
func TestCallbackFromFiber(t *testing.T) {
	for _, migrate := range []bool{false, true} {
		// Each of the callers may block a thread, and what it waits for wants one more.
		const callers = 8
		rt := openTest(t, Options{StackSize: stackMin, Migrate: migrate, MaxThreads: 4 * callers,
			Logger: slog.New(slog.DiscardHandler)})
		fn := newCallback(t, func(n uintptr) uintptr {
			growStack(64)
			runtime.GC()
			func() {
				defer func() { recover() }()
				panic("recovered")
			}()
			ch := make(chan uintptr)
			go func() { ch <- n }()
			if f, err := rt.Spawn(ctest.WithNumber(ctest.Return, 1)); err != nil || <-ch != n {
				t.Error(err)
			} else if r, err := f.Wait(context.Background()); r != 1 || err != nil {
				t.Error(r, err)
			}
			return n + uintptr(call(t, rt, ctest.Return, number(100)))
		})
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				if got := call(t, rt, ctest.CallOverWaits, fn); got != 1045 {
					t.Errorf("got %d", got)
				}
			})
		}
		wg.Wait()
	}
}

// Go, and the C code that it calls, run on the thread's stack and never on the fiber's.
func TestCallbackLeavesFiberStack(t *testing.T) {
	rt := openTest(t, Options{StackSize: stackMin})
	const depth = 1000 // of half a KiB each: would run far over the fiber's stack
	var first, second int
	fn := newCallback(t, func(unsafe.Pointer) int {
		first = ctest.CallNoFiber(ctest.FrameAddress, nil)
		inner := newCallback(t, func(unsafe.Pointer) int {
			second = ctest.CallNoFiber(ctest.FrameAddress, nil)
			return ctest.CallNoFiber(ctest.WithNumber(ctest.Recurse, depth))
		})
		return ctest.CallNoFiber(inner, nil)
	})
	if got := call(t, rt, fn, nil); got != depth {
		t.Errorf("got %d", got)
	}
	// Each fiber has the same stack as the one before.
	fiber := call(t, rt, ctest.FrameAddress, nil)
	for _, sp := range []int{first, second} {
		if sp > fiber-stackMin && sp < fiber+stackMin {
			t.Errorf("C code that Go has called runs at %#x; the stack of a fiber is at %#x", sp, fiber)
		}
	}
}

// A thread of somebody else's calls, on no fiber.
func TestCallbackFromThread(t *testing.T) {
	rt := openTest(t, Options{})
	fn := newCallback(t, func(self unsafe.Pointer) int {
		if self == nil || bridgeCurrent() != nil {
			return -1
		}
		return 7
	})
	for range 3 {
		if got := call(t, rt, ctest.CallFromThread, fn); got != 7 {
			t.Errorf("on a fiber: %d", got)
		}
		if got := ctest.CallNoFiber(ctest.CallFromThread, fn); got != 7 {
			t.Errorf("on a thread: %d", got)
		}
	}
}

// A callback is an entry function too.
func TestCallbackAsFiber(t *testing.T) {
	rt := openTest(t, Options{})
	fn := newCallback(t, func(arg unsafe.Pointer) int {
		if bridgeCurrent() == nil {
			return -1
		}
		*(*int64)(arg)++
		return 5
	})
	n := new(int64)
	if got := call(t, rt, fn, unsafe.Pointer(n)); got != 5 || *n != 1 {
		t.Errorf("%d, %d", got, *n)
	}
}

func TestCallbackInvalid(t *testing.T) {
	for name, fn := range map[string]any{
		"nil":           nil,
		"number":        1,
		"nil function":  (func())(nil),
		"nil word":      (func(uintptr) uintptr)(nil),
		"nil entry":     (func(unsafe.Pointer) int)(nil),
		"seven":         func(_, _, _, _, _, _, _ int) {},
		"two results":   func() (int, int) { return 0, 0 },
		"variadic":      func(...int) {},
		"string":        func(string) {},
		"float":         func(float64) {},
		"float result":  func() float32 { return 0 },
		"slice":         func([]byte) {},
		"struct":        func(struct{ a int }) {},
		"function":      func(func()) {},
		"error result":  func() error { return nil },
		"complex":       func(complex64) {},
		"array pointer": func(*[2]int, [2]int) {},
	} {
		f, err := NewCallback(fn)
		if f != nil || !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// There are as many as promised, and a freed one can be had again.
func TestCallbackLimit(t *testing.T) {
	var all []unsafe.Pointer
	distinct := map[unsafe.Pointer]bool{}
	inUse := len(callbacks.slot)
	for {
		i := uintptr(len(all))
		f, err := NewCallback(func(uintptr) uintptr { return i })
		if err != nil {
			if f != nil || !errors.Is(err, ErrTooManyCallbacks) {
				t.Error(err)
			}
			break
		}
		all = append(all, f)
		distinct[f] = true
	}
	if len(all)+inUse != maxCallbacks || len(distinct) != len(all) {
		t.Errorf("%d, %d of them distinct, beside %d", len(all), len(distinct), inUse)
	}
	for i, f := range all {
		if got := ctest.CallNoFiber(f, nil); got != i {
			t.Errorf("%d returns %d", i, got)
		}
	}
	slot := callbacks.slot[all[0]]
	FreeCallback(all[0])
	expectPanic(t, "freed twice", func() { FreeCallback(all[0]) })
	expectPanic(t, "freed, called", func() { dispatchCallback(&cCall{index: uintptr(slot)}) })
	again, err := NewCallback(func() {})
	if err != nil || again != all[0] {
		t.Errorf("%p for %p, %v", again, all[0], err)
	}
	for _, f := range all {
		FreeCallback(f)
	}
	expectPanic(t, "nil", func() { FreeCallback(nil) })
}

func expectPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}

// They are made, called and freed from everywhere at once.
func TestCallbacksAtOnce(t *testing.T) {
	rt := openTest(t, Options{Threads: 4})
	var calls atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				f, err := NewCallback(func(a uintptr) uintptr { calls.Add(1); return a + uintptr(i) })
				if err != nil {
					t.Error(err)
					return
				}
				if got := call(t, rt, f, number(100)); got != 100+i {
					t.Errorf("%d: got %d", i, got)
				}
				FreeCallback(f)
			}
		})
	}
	wg.Wait()
	if calls.Load() != 8*50 {
		t.Errorf("%d calls", calls.Load())
	}
}
