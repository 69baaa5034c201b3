package cfiber

import (
	"context"
	"errors"
	"os"
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

func TestUseAfterClose(t *testing.T) {
	rt, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := spawn(t, rt, ctest.Return, number(5))
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Wait(context.Background()); n != 5 && !errors.Is(err, ErrCanceled) {
		t.Errorf("%d, %v", n, err)
	}
	f.Cancel()
	if _, err := rt.Spawn(ctest.Return, nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := rt.Call(context.Background(), ctest.Return, nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
	if err := rt.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if s := rt.Stats(); s.Live != 0 || s.Spawned != 1 || s.Finished != 1 || s.Threads != 0 {
		t.Errorf("%+v", s)
	}
}

// A Runtime that New has not made is like one that is closed.
func TestZeroRuntime(t *testing.T) {
	var rt Runtime
	_, err := rt.Spawn(ctest.Return, nil, Attr{Name: "early"})
	var e *Error
	if !errors.Is(err, ErrClosed) || !errors.As(err, &e) || e.Name != "early" || !strings.Contains(e.Hint, "New") {
		t.Error(err)
	}
	if _, err := rt.Call(context.Background(), ctest.Return, nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
	if err := rt.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if s := rt.Stats(); s != (Stats{}) {
		t.Errorf("%+v", s)
	}
}

// The shortest time-out does not make a failure of a runtime that is closed.
func TestCloseAgainWithoutPatience(t *testing.T) {
	rt, err := New(Options{CloseTimeout: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		if err := rt.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func threads(t testing.TB) int {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Skip(err)
	}
	return len(entries)
}

// A thousand runtimes leave no descriptor, no thread and no memory behind (S7, S8, S9).
func TestOpenCloseCycles(t *testing.T) {
	cycles := 1000
	if testing.Short() {
		cycles = 100
	}
	cycle := func(i int) {
		rt, err := New(Options{Threads: 1 + i%3})
		if err != nil {
			t.Fatal(err)
		}
		var fibers []*Fiber
		var started int32
		for j := range i % 7 { // parked, ready and running ones
			fn := ctest.ParkForever
			if j%2 == 0 {
				fn = ctest.Count
			}
			fibers = append(fibers, spawn(t, rt, fn, unsafe.Pointer(&started)))
		}
		if err := rt.Close(); err != nil {
			t.Fatal(err)
		}
		for _, f := range fibers {
			f.Wait(context.Background())
		}
	}
	for i := range 50 { // warm up
		cycle(i)
	}
	fds, ths, mem := openFDs(t), threads(t), residentBytes(t)
	for i := range cycles {
		cycle(i)
	}
	if n := openFDs(t); n > fds {
		t.Errorf("%d descriptors, %d before", n, fds)
	}
	// Go keeps threads for its own; a leak would be one per cycle.
	if n := threads(t); n > ths+8 {
		t.Errorf("%d threads, %d before", n, ths)
	}
	runtime.GC()
	if n := residentBytes(t); n > mem+32<<20 {
		t.Errorf("%d bytes resident, %d before", n, mem)
	}
}

func residentBytes(t testing.TB) int {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	pages := 0
	for _, c := range strings.Fields(string(b))[1] {
		pages = pages*10 + int(c-'0')
	}
	return pages * os.Getpagesize()
}

func TestCloseRightAfterNew(t *testing.T) {
	for range 50 {
		rt, err := New(Options{Threads: 4})
		if err != nil {
			t.Fatal(err)
		}
		if err := rt.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestShutdownWaits(t *testing.T) {
	rt, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := spawn(t, rt, ctest.SleepNS, number(20*time.Millisecond))
	if err := rt.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Wait(context.Background()); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestShutdownContext(t *testing.T) {
	rt, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	spinner, stop := spinning(t, rt) // hears no cancel
	sleeper := spawn(t, rt, ctest.ParkForever, nil)
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	err = rt.Shutdown(ctx)
	if !errors.Is(err, ErrStillRunning) || !errors.Is(err, context.Canceled) || !errors.Is(err, why) || !strings.Contains(err.Error(), "2 of them") {
		t.Errorf("%v", err)
	}
	if n, err := sleeper.Wait(context.Background()); n != canceled || !errors.Is(err, ErrCanceled) {
		t.Errorf("%d, %v", n, err)
	}
	stop()
	if _, err := spinner.Wait(context.Background()); !errors.Is(err, ErrCanceled) {
		t.Error(err)
	}
	if err := rt.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestCloseTimesOut(t *testing.T) {
	rt, err := New(Options{CloseTimeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, stop := spinning(t, rt)
	if err := rt.Close(); !errors.Is(err, ErrStillRunning) || !strings.Contains(err.Error(), "1 of them") {
		t.Errorf("%v", err)
	}
	stop()
	if err := rt.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// Spawns race the end: each either fails with ErrClosed or ends.
func TestSpawnRacesClose(t *testing.T) {
	for range 50 {
		rt, err := New(Options{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for range 8 {
			wg.Go(func() {
				<-begin
				for range 50 {
					_, err := rt.Call(context.Background(), ctest.ParkForever, nil)
					if !errors.Is(err, ErrClosed) && !errors.Is(err, ErrCanceled) {
						t.Error(err)
					}
					if errors.Is(err, ErrClosed) {
						return
					}
				}
			})
		}
		close(begin)
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}

func TestTwoRuntimes(t *testing.T) {
	a, b := openTest(t, Options{}), openTest(t, Options{Threads: 1})
	ctest.Callback = func(n uintptr) uintptr { return uintptr(call(t, b, ctest.Return, number(n))) }
	if got := call(t, a, ctest.CallGo, number(9)); got != 9 {
		t.Error(got)
	}
}

// The poller of the first thread is needed; without those of others it goes on.
func TestPollerFailure(t *testing.T) {
	broken := errors.New("no poller")
	if _, err := open(Options{}, func() (cPoller, error) { return cPoller{}, broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	var n atomic.Int32
	rt, err := open(Options{Threads: 4}, func() (cPoller, error) {
		if n.Add(1) > 1 {
			return cPoller{}, broken
		}
		return pollerOpen()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	if got := call(t, rt, ctest.Fib, number(15)); got != 610 {
		t.Error(got)
	}
	if n.Load() < 2 || rt.Stats().Threads != 1 {
		t.Errorf("tried %d times, %d threads", n.Load(), rt.Stats().Threads)
	}
}

// Numbers of csrc/fault.h.
const (
	faultMmap = iota
	faultGuard
	faultMalloc
	faultPollerAdd
	faultPollerWait
	faultRead
	faultWrite
	faultAccept
	faultConnect
	faultPoll
	faultSites
)

func inject(t testing.TB, site int, e syscall.Errno, first, count uint32) {
	bridgeFault(site, e, first, count)
	t.Cleanup(func() { bridgeFault(site, 0, 0, 0) })
}

// New fails, or works, whichever allocation fails; nothing is left (fault 13).
func TestNewOutOfMemory(t *testing.T) {
	fds := openFDs(t)
	for nth := uint32(1); nth <= 6; nth++ {
		inject(t, faultMmap, syscall.ENOMEM, nth, 1)
		rt, err := New(Options{})
		if err != nil {
			if !errors.Is(err, ErrNoMemory) {
				t.Errorf("allocation %d: %v", nth, err)
			}
			continue
		}
		if _, err := rt.Call(context.Background(), ctest.Return, nil); err != nil && !errors.Is(err, ErrNoMemory) {
			t.Errorf("allocation %d: %v", nth, err)
		}
		bridgeFault(faultMmap, 0, 0, 0)
		if got := call(t, rt, ctest.Return, number(1)); got != 1 {
			t.Errorf("allocation %d: not usable after it", nth)
		}
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := openFDs(t); n != fds {
		t.Errorf("%d descriptors, %d before", n, fds)
	}
}

func TestNoMemoryForStack(t *testing.T) {
	for _, site := range []int{faultMmap, faultGuard, faultMalloc} {
		rt := openTest(t, Options{})
		fibers := []*Fiber{}
		spawn(t, rt, ctest.Return, nil, Attr{StackSize: 1 << 20}).Wait(context.Background()) // records are there
		inject(t, site, syscall.ENOMEM, 1, 1000)
		for range 3 {
			fibers = append(fibers, spawn(t, rt, ctest.Return, number(1), Attr{Name: "poor"}))
		}
		for _, f := range fibers {
			n, err := f.Wait(context.Background())
			if n != 0 || !errors.Is(err, ErrNoMemory) || !strings.Contains(err.Error(), "poor") {
				t.Errorf("site %d: %d, %v", site, n, err)
			}
		}
		bridgeFault(site, 0, 0, 0)
		if got := call(t, rt, ctest.Return, number(2)); got != 2 {
			t.Errorf("site %d: not usable after it", site)
		}
	}
}
