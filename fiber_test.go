package cfiber

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/cfiber/cfiber/internal/ctest"
)

// canceled is what a test function returns when its waiting call failed so.
const canceled = -int(syscall.ECANCELED)

// await polls until ok, yielding: for states that nothing announces.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute) // a loaded machine is not a defect
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never came true: %s", what)
		}
		runtime.Gosched()
	}
}

// parked waits until n fibers, which count themselves in, have begun to wait.
func parked(t testing.TB, rt *Runtime, started *int32, n int) {
	t.Helper()
	await(t, "all have started", func() bool { return atomic.LoadInt32(started) >= int32(n) })
	idle(t, rt)
}

func TestBadArguments(t *testing.T) {
	rt := openTest(t, Options{})
	for name, call := range map[string]func() error{
		"nil function":   func() error { _, err := rt.Spawn(nil, nil); return err },
		"two attrs":      func() error { _, err := rt.Spawn(ctest.Return, nil, Attr{}, Attr{}); return err },
		"small stack":    func() error { _, err := rt.Spawn(ctest.Return, nil, Attr{StackSize: 1}); return err },
		"large stack":    func() error { _, err := rt.Spawn(ctest.Return, nil, Attr{StackSize: math.MaxInt}); return err },
		"negative stack": func() error { _, err := rt.Spawn(ctest.Return, nil, Attr{StackSize: -1}); return err },
		"call nil":       func() error { _, err := rt.Call(context.Background(), nil, nil); return err },
		"threads":        func() error { _, err := New(Options{Threads: -1}); return err },
		"max threads":    func() error { _, err := New(Options{MaxThreads: 5000}); return err },
		"threads > max":  func() error { _, err := New(Options{Threads: 4, MaxThreads: 2}); return err },
		"stack":          func() error { _, err := New(Options{StackSize: 100}); return err },
		"fibers":         func() error { _, err := New(Options{MaxFibers: 1 << 25}); return err },
		"timeout":        func() error { _, err := New(Options{CloseTimeout: -1}); return err },
	} {
		if err := call(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := rt.Stats(); s.Live != 0 || s.Spawned != 0 {
		t.Errorf("something was spawned: %+v", s)
	}
}

// An error names the option that is wrong, and its value.
func TestBadOptionsAreNamed(t *testing.T) {
	for message, o := range map[string]Options{
		"Options.Threads -7":      {Threads: -7},
		"Options.MaxThreads -7":   {MaxThreads: -7},
		"Options.MaxThreads 5000": {MaxThreads: 5000},
		"Options.StackSize -7":    {StackSize: -7},
		"Options.StackSize 7":     {StackSize: 7},
		"Options.MaxFibers -7":    {MaxFibers: -7},
		"Options.CloseTimeout -7": {CloseTimeout: -7},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: %v", message, err)
		}
	}
}

func TestErrorNamesTheFiber(t *testing.T) {
	rt := openTest(t, Options{})
	f := spawn(t, rt, ctest.ParkForever, nil, Attr{Name: "sleeper"})
	f.Cancel()
	n, err := f.Wait(context.Background())
	if n != canceled || !errors.Is(err, ErrCanceled) {
		t.Errorf("%d, %v", n, err)
	}
	var e *Error
	if !errors.As(err, &e) || e.ID != f.ID() || e.Name != "sleeper" || !strings.Contains(err.Error(), `"sleeper"`) {
		t.Errorf("%v", err)
	}
}

func TestGoMemoryArgument(t *testing.T) {
	rt := openTest(t, Options{})
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			a := new([2]int64)
			a[0] = int64(time.Millisecond)
			if _, err := rt.Call(context.Background(), ctest.SleepArray, unsafe.Pointer(a)); err != nil || a[1] != 1 {
				t.Errorf("%v %v", a, err)
			}
		})
		runtime.GC()
	}
	wg.Wait()
}

// The argument stays valid though nothing in Go refers to it any more.
func TestArgumentIsKept(t *testing.T) {
	rt := openTest(t, Options{})
	var freed atomic.Bool
	f := func() *Fiber {
		a := new([2]int64)
		runtime.AddCleanup(a, func(int) { freed.Store(true) }, 0)
		a[0] = int64(20 * time.Millisecond)
		return spawn(t, rt, ctest.SleepArray, unsafe.Pointer(a))
	}()
	for done := false; !done; {
		select {
		case <-f.Done():
			done = true
		default:
			runtime.GC()
			if freed.Load() {
				select {
				case <-f.Done():
				default:
					t.Fatal("freed under a running fiber")
				}
			}
		}
	}
	await(t, "the argument is freed at last", func() bool { runtime.GC(); return freed.Load() })
}

func TestErrnoIsPerFiber(t *testing.T) {
	for _, migrate := range []bool{false, true} {
		rt := openTest(t, Options{Threads: 2, Migrate: migrate})
		var wg sync.WaitGroup
		for i := 1; i <= 20; i++ {
			wg.Go(func() {
				if got := call(t, rt, ctest.Errno, number(i)); got != i {
					t.Errorf("migrate %v: errno %d, want %d", migrate, got, i)
				}
			})
		}
		wg.Wait()
	}
}

// Where there is no fiber, C calls Go as ever.
func TestCallbackWithoutFiber(t *testing.T) {
	before := ctest.Callback
	defer func() { ctest.Callback = before }()
	ctest.Callback = func(arg uintptr) uintptr { return arg * 2 }
	if n := ctest.CallNoFiber(ctest.WithNumber(ctest.CallGo, 21)); n != 42 {
		t.Error(n)
	}
}

// Attributes reach the fiber, and a handle knows its name.
func TestAttr(t *testing.T) {
	rt := openTest(t, Options{Threads: 1})
	var started int32
	f := spawn(t, rt, ctest.ParkForever, unsafe.Pointer(&started), Attr{
		Name: strings.Repeat("n", 50), KeepFP: true, Migratable: true, StackSize: 70_000})
	parked(t, rt, &started, 1)
	c := f.c
	if f.Name() != strings.Repeat("n", 50) || fiberName(c) != strings.Repeat("n", nameMax-1) {
		t.Errorf("%q, %q", f.Name(), fiberName(c))
	}
	if want := uint32(flagKeepFP | flagMigratable); c.flags&want != want || c.stackSize != 70_000 {
		t.Errorf("flags %#x, stack %d", c.flags, c.stackSize)
	}
	f.Cancel()
	if n, err := f.Wait(context.Background()); n != canceled || !errors.Is(err, ErrCanceled) {
		t.Errorf("%d, %v", n, err)
	}
}

// A migratable fiber that is parked is made ready by who cancels it, and by nobody else.
func TestCancelParkedMigratable(t *testing.T) {
	rt := openTest(t, Options{Threads: 2, Migrate: true})
	var started int32
	var fibers []*Fiber
	for range 100 {
		fibers = append(fibers, spawn(t, rt, ctest.ParkForever, unsafe.Pointer(&started)))
	}
	parked(t, rt, &started, len(fibers))
	for _, f := range fibers {
		f.Cancel()
	}
	for _, f := range fibers {
		if n, err := f.Wait(context.Background()); n != canceled || !errors.Is(err, ErrCanceled) {
			t.Errorf("%d, %v", n, err)
		}
	}
}

// What the core returns becomes an error of the package, and says what to do.
func TestWrapErrno(t *testing.T) {
	if err := wrapErrno("new", nil); err != nil {
		t.Error(err)
	}
	for e, want := range map[syscall.Errno]struct {
		is   error
		hint string
	}{
		syscall.EAGAIN:  {ErrTooManyFibers, "MaxFibers"},
		syscall.ENOMEM:  {ErrNoMemory, "vm.max_map_count"},
		syscall.EINVAL:  {ErrInvalid, ""},
		syscall.ENOTSUP: {ErrUnsupported, "shadow stacks"},
		syscall.EMFILE:  {syscall.EMFILE, ""},
	} {
		err := wrapErrno("new", e)
		var typed *Error
		if !errors.Is(err, want.is) || !errors.As(err, &typed) || typed.Op != "new" || !strings.Contains(typed.Hint, want.hint) {
			t.Errorf("%v: %v", e, err)
		}
	}
}

func TestWaitManyTimes(t *testing.T) {
	rt := openTest(t, Options{})
	f := spawn(t, rt, ctest.Return, number(7))
	for range 3 {
		if n, err := f.Wait(context.Background()); n != 7 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	f.Cancel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if n, err := f.Wait(ctx); n != 7 || err != nil {
		t.Errorf("after the end: %d, %v", n, err)
	}
}

func TestContextCancels(t *testing.T) {
	rt := openTest(t, Options{})
	var started int32
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n, err := rt.Call(ctx, ctest.ParkForever, unsafe.Pointer(&started))
		if n != canceled || !errors.Is(err, context.Canceled) || !errors.Is(err, ErrCanceled) {
			t.Errorf("%d, %v", n, err)
		}
	}()
	parked(t, rt, &started, 1)
	cancel()
	<-done

	if _, err := rt.Call(ctx, ctest.Return, nil); !errors.Is(err, context.Canceled) || !errors.Is(err, ErrCanceled) {
		t.Errorf("a context that is done: %v", err)
	}
	short, cancelShort := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancelShort()
	if _, err := rt.Call(short, ctest.ParkForever, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deadline: %v", err)
	}
	why := errors.New("why")
	caused, cancelCause := context.WithCancelCause(context.Background())
	f := spawn(t, rt, ctest.ParkForever, nil)
	cancelCause(why)
	if _, err := f.Wait(caused); !errors.Is(err, why) || !errors.Is(err, context.Canceled) {
		t.Errorf("cause: %v", err)
	}
	_, err := rt.Call(caused, ctest.Return, nil, Attr{Name: "early"})
	if !errors.Is(err, why) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), `"early"`) {
		t.Errorf("cause of a context that is done: %v", err)
	}
}

// Cancel, deadline and the event race; whichever is first, each call returns once.
func TestCancelRaces(t *testing.T) {
	rt := openTest(t, Options{Threads: 2})
	var wg sync.WaitGroup
	for i := range 2000 {
		wg.Go(func() {
			d := time.Duration(i%50) * 20 * time.Microsecond
			ctx, cancel := context.WithTimeout(context.Background(), d)
			defer cancel()
			fn, arg := with(ctest.SleepNS, number(500*time.Microsecond))
			n, err := rt.Call(ctx, fn, arg)
			switch {
			case err == nil && n == 0:
			case errors.Is(err, context.DeadlineExceeded) && (n == 0 || n == canceled):
			default:
				t.Errorf("%d, %v", n, err)
			}
		})
	}
	wg.Wait()
	await(t, "all ended", func() bool { return rt.Stats().Live == 0 })
}

func TestCancelBeforeStart(t *testing.T) {
	rt := openTest(t, Options{Threads: 1, MaxThreads: 1})
	spinner, stop := spinning(t, rt)
	f := spawn(t, rt, ctest.ParkForever, nil)
	f.Cancel()
	f.Cancel()
	stop()
	if n, err := f.Wait(context.Background()); n != canceled || !errors.Is(err, ErrCanceled) {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := spinner.Wait(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestMaxFibers(t *testing.T) {
	rt := openTest(t, Options{MaxFibers: 10})
	var started int32
	var fibers []*Fiber
	for range 10 {
		fibers = append(fibers, spawn(t, rt, ctest.ParkForever, unsafe.Pointer(&started)))
	}
	if _, err := rt.Spawn(ctest.Return, nil, Attr{Name: "eleventh"}); !errors.Is(err, ErrTooManyFibers) ||
		!strings.Contains(err.Error(), "eleventh") {
		t.Errorf("%v", err)
	}
	fibers[0].Cancel()
	fibers[0].Wait(context.Background())
	if got := call(t, rt, ctest.Return, number(3)); got != 3 {
		t.Error(got)
	}
}

func TestWaitOnItself(t *testing.T) {
	rt := openTest(t, Options{})
	self := make(chan *Fiber, 1)
	ctest.Callback = func(uintptr) uintptr {
		f := <-self
		_, err := f.Wait(context.Background())
		closeErr := rt.Close()
		shutErr := rt.Shutdown(context.Background())
		if errors.Is(err, ErrDeadlock) && errors.Is(closeErr, ErrDeadlock) && errors.Is(shutErr, ErrDeadlock) {
			return 1
		}
		return 0
	}
	f := spawn(t, rt, ctest.CallGo, nil)
	self <- f
	if n, err := f.Wait(context.Background()); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// A Go function called from a fiber runs another C function on a fiber and waits.
func TestCallWithinCallback(t *testing.T) {
	for _, threads := range []int{1, 2} {
		rt := openTest(t, Options{Threads: threads})
		var depth atomic.Int32
		ctest.Callback = func(n uintptr) uintptr {
			depth.Add(1)
			if n == 0 {
				return 0
			}
			return uintptr(call(t, rt, ctest.CallGo, number(n-1))) + 1
		}
		if got := call(t, rt, ctest.CallGo, number(5)); got != 5 || depth.Load() != 6 {
			t.Errorf("%d threads: got %d, depth %d", threads, got, depth.Load())
		}
	}
}

func openFDs(t testing.TB) int {
	entries, err := os.ReadDir(fdDir())
	if err != nil {
		t.Skip(err)
	}
	return len(entries)
}

func fdDir() string {
	if runtime.GOOS == "linux" {
		return "/proc/self/fd"
	}
	return filepath.Clean("/dev/fd")
}

// Who closes a runtime may come upon the handle of a call that has just ended, and serves a call of
// another runtime by then. That one is not cancelled.
func TestCancelForEarlierRuntime(t *testing.T) {
	a, b := openTest(t, Options{Threads: 1}), openTest(t, Options{Threads: 1})
	f := &Fiber{done: make(chan struct{}, 1), reused: true}
	if err := a.start("call", f, ctest.Return, nil, nil); err != nil {
		t.Fatal(err)
	}
	defer a.leave()
	<-f.done
	if err := b.start("call", f, ctest.ParkForever, nil, nil); err != nil {
		t.Fatal(err)
	}
	defer b.leave()
	if f.cancelFor(a) {
		t.Error("the other runtime's fiber has been cancelled")
	}
	if !f.cancelFor(b) {
		t.Error("the fiber has not been cancelled")
	}
	<-f.done
}

// A fiber that has ended is not cancelled, though nobody has been told of its end yet.
func TestCancelAfterEnd(t *testing.T) {
	rt := openTest(t, Options{Threads: 1})
	f := endUntold(t, rt)
	f.Cancel()
	if f.cancel() {
		t.Error("a fiber that has ended has been cancelled")
	}
	rt.attend(false)
	if n, err := f.Wait(context.Background()); n != 6 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n := rt.ending.Load(); n != 0 {
		t.Errorf("%d fibers are waited for as cancelled ones", n)
	}
}
