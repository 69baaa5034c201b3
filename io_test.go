package cfiber

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/cfiber/cfiber/internal/ctest"
	"golang.org/x/sys/unix"
)

func pipe(t testing.TB) (r, w int) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe(p[:]); err != nil {
		t.Fatal(err)
	}
	return p[0], p[1]
}

func socketpair(t testing.TB, typ int) (a, b int) {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, typ, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p[0], p[1]
}

// idle waits until all threads of the runtime wait in their pollers and nothing
// is queued. A thread that has announced itself idle may yet find something, so
// nothing may have happened between two looks.
func idle(t testing.TB, rt *Runtime) {
	t.Helper()
	await(t, "the runtime is idle", func() bool {
		before := rt.Stats()
		if before.Threads != before.IdleThreads || rt.stealable() {
			return false
		}
		after := rt.Stats()
		return after.Threads == after.IdleThreads && after.Switches == before.Switches &&
			after.Waits == before.Waits
	})
}

// The tests in C, each run on a fiber of a Go runtime, and again without any.
func TestC(t *testing.T) {
	for _, threads := range []int{1, 2} {
		rt := openTest(t, Options{Threads: threads})
		migrating := openTest(t, Options{Threads: threads, Migrate: true})
		for _, c := range ctest.Cases {
			t.Run(fmt.Sprintf("%s/threads=%d", c.Name, threads), func(t *testing.T) {
				if line := call(t, rt, c.Fn, nil); line != 0 {
					t.Errorf("cases.c:%d failed", line)
				}
				if line := call(t, migrating, c.Fn, nil); line != 0 {
					t.Errorf("migrating: cases.c:%d failed", line)
				}
			})
		}
	}
	for _, c := range ctest.Cases {
		if !c.OnThread {
			continue
		}
		t.Run(c.Name+"/thread", func(t *testing.T) {
			if line := ctest.CallNoFiber(c.Fn, nil); line != 0 {
				t.Errorf("cases.c:%d failed", line)
			}
		})
	}
}

// More readers than a poller takes events at once wait on one descriptor, and
// each byte wakes one: no herd, nobody forgotten (S18, fault 21).
func TestManyReadersOfOneFD(t *testing.T) {
	const n = 200
	for _, threads := range []int{1, 2} {
		rt := openTest(t, Options{Threads: threads})
		a, b := socketpair(t, unix.SOCK_STREAM)
		var fibers []*Fiber
		for range n {
			fibers = append(fibers, spawn(t, rt, ctest.ReadFD, number(a)))
		}
		idle(t, rt)
		var sum atomic.Int64
		var wg sync.WaitGroup
		for _, f := range fibers {
			wg.Go(func() {
				v, err := f.Wait(context.Background())
				if err != nil {
					t.Error(err)
				}
				sum.Add(int64(v))
			})
		}
		for range n / 2 {
			unix.Write(b, []byte{1})
		}
		rest := make([]byte, n/2)
		for i := range rest {
			rest[i] = 1
		}
		unix.Write(b, rest)
		wg.Wait()
		if sum.Load() != n {
			t.Errorf("%d bytes read", sum.Load())
		}
		unix.Close(a)
		unix.Close(b)
	}
}

// A wake-up of one of many waiters does not switch to the others.
func TestNoHerd(t *testing.T) {
	rt := openTest(t, Options{Threads: 1})
	a, b := socketpair(t, unix.SOCK_DGRAM)
	defer unix.Close(b)
	const n = 100
	var fibers []*Fiber
	for range n {
		fibers = append(fibers, spawn(t, rt, ctest.ReadFD, number(a)))
	}
	idle(t, rt)
	before := rt.Stats().Switches
	const sent = 50
	for i := range sent {
		unix.Write(b, []byte{1})
		await(t, "one reader done", func() bool { return rt.Stats().Live == uint64(n-i-1) })
	}
	// Some per datagram: the reader, the next, to which it passes the edge, and each
	// waiter once to confirm the registration. A herd would be half of n each time.
	if got := rt.Stats().Switches - before; got > sent*n/5 {
		t.Errorf("%d switches for %d datagrams", got, sent)
	}
	call(t, rt, ctest.CloseFD, number(a))
	closed := 0
	for _, f := range fibers {
		v, err := f.Wait(context.Background())
		if err != nil {
			t.Error(err)
		}
		if v == -int(syscall.EBADF) {
			closed++
		}
	}
	if closed != n-sent {
		t.Errorf("%d woken by close", closed)
	}
}

// Closing wakes every waiter with EBADF, and the next owner of the number starts
// afresh (S10, S11, fault 20).
func TestCloseUnderWaiters(t *testing.T) {
	rt := openTest(t, Options{Threads: 2})
	for range 200 {
		a, b := socketpair(t, unix.SOCK_STREAM)
		var fibers []*Fiber
		for range 4 {
			fibers = append(fibers, spawn(t, rt, ctest.ReadFD, number(a)))
		}
		idle(t, rt)
		if r := call(t, rt, ctest.CloseFD, number(a)); r != 0 {
			t.Fatal(r)
		}
		// The lowest number is given out next: the same one, in all likelihood.
		c, d := socketpair(t, unix.SOCK_STREAM)
		f := spawn(t, rt, ctest.ReadFD, number(c))
		for _, old := range fibers {
			if n, err := old.Wait(context.Background()); n != -int(syscall.EBADF) || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		}
		unix.Write(d, []byte{42})
		if n, err := f.Wait(context.Background()); n != 42 || err != nil {
			t.Errorf("new owner: %d, %v", n, err)
		}
		for _, fd := range []int{b, c, d} {
			unix.Close(fd)
		}
	}
}

// The same where the number changes hands behind our back, by plain close.
func TestPlainCloseAndReuse(t *testing.T) {
	rt := openTest(t, Options{Threads: 2})
	for i := range 20 {
		a, b := socketpair(t, unix.SOCK_STREAM)
		f := spawn(t, rt, ctest.ReadFD, number(a)) // registers a
		idle(t, rt)
		unix.Write(b, []byte{1})
		if n, err := f.Wait(context.Background()); n != 1 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		unix.Close(a)
		c, d := socketpair(t, unix.SOCK_STREAM)
		f = spawn(t, rt, ctest.ReadFD, number(c))
		idle(t, rt)
		unix.Write(d, []byte{2})
		if n, err := f.Wait(context.Background()); n != 2 || err != nil {
			t.Fatalf("round %d: %d, %v", i, n, err)
		}
		for _, fd := range []int{b, c, d} {
			unix.Close(fd)
		}
	}
}

// Closes, reuse and readers all at once: every call ends.
func TestCloseAndReuseUnderLoad(t *testing.T) {
	rt := openTest(t, Options{Threads: 2})
	var wg sync.WaitGroup
	rounds := 300
	if testing.Short() {
		rounds = 50
	}
	for range 8 {
		wg.Go(func() {
			for range rounds {
				a, b := socketpair(t, unix.SOCK_STREAM)
				f := spawn(t, rt, ctest.ReadFD, number(a))
				g := spawn(t, rt, ctest.ReadFD, number(a))
				unix.Write(b, []byte{7})
				call(t, rt, ctest.CloseFD, number(a))
				for _, f := range []*Fiber{f, g} {
					// By the time a fiber first runs the number may be another pair's; then
					// it waits for that one's byte. What is promised is that it ends.
					if _, err := f.Wait(context.Background()); err != nil {
						t.Error(err)
					}
				}
				// Somebody's reader may be here too by now.
				call(t, rt, ctest.CloseFD, number(b))
			}
		})
	}
	wg.Wait()
}

func TestCancelInRead(t *testing.T) {
	rt := openTest(t, Options{Threads: 2})
	var fibers []*Fiber
	for range 8 {
		a, b := socketpair(t, unix.SOCK_DGRAM)
		defer unix.Close(a)
		defer unix.Close(b)
		fibers = append(fibers, spawn(t, rt, ctest.ReadFD, number(a)))
	}
	idle(t, rt)
	for _, f := range fibers {
		f.Cancel()
	}
	for _, f := range fibers {
		if n, err := f.Wait(context.Background()); n != canceled || !errors.Is(err, ErrCanceled) {
			t.Errorf("%d, %v", n, err)
		}
	}
}

// A failing registration is one fiber's error; others are untouched (S17).
func TestRegistrationFails(t *testing.T) {
	rt := openTest(t, Options{Threads: 1})
	for _, e := range []syscall.Errno{syscall.ENOMEM, syscall.ENOSPC} {
		a, b := socketpair(t, unix.SOCK_STREAM)
		c, d := socketpair(t, unix.SOCK_STREAM)
		good := spawn(t, rt, ctest.ReadFD, number(c))
		idle(t, rt)
		inject(t, faultPollerAdd, e, 1, 1)
		if n := call(t, rt, ctest.ReadFD, number(a)); n != -int(e) {
			t.Errorf("got %d, want %d", n, -int(e))
		}
		unix.Write(d, []byte{3})
		if n, err := good.Wait(context.Background()); n != 3 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		// Not now: on a number that is used again, the registration of good would be looked at
		// once more, soon, and meet the fault.
		for _, fd := range []int{a, b, c, d} {
			t.Cleanup(func() { unix.Close(fd) })
		}
	}
}

// EINTR never surfaces, neither of the wait nor of the operation (fault 23).
func TestInterrupted(t *testing.T) {
	rt := openTest(t, Options{Threads: 1})
	a, b := socketpair(t, unix.SOCK_STREAM)
	defer unix.Close(a)
	defer unix.Close(b)
	inject(t, faultPollerWait, syscall.EINTR, 1, 500)
	inject(t, faultRead, syscall.EINTR, 1, 10)
	f := spawn(t, rt, ctest.ReadFD, number(a))
	unix.Write(b, []byte{9})
	if n, err := f.Wait(context.Background()); n != 9 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n := call(t, rt, ctest.SleepNS, number(time.Millisecond)); n != 0 {
		t.Error(n)
	}
}

// Two fibers that yield to each other do not starve a socket, nor a third one (S13, S14).
func TestYieldersDoNotStarve(t *testing.T) {
	rt := openTest(t, Options{Threads: 1, MaxThreads: 1})
	var stop, third int32
	y1 := spawn(t, rt, ctest.YieldUntil, unsafe.Pointer(&stop))
	y2 := spawn(t, rt, ctest.YieldUntil, unsafe.Pointer(&stop))
	a, b := socketpair(t, unix.SOCK_STREAM)
	reader := spawn(t, rt, ctest.ReadFD, number(a))
	sleeper := spawn(t, rt, ctest.SleepNS, number(time.Millisecond))
	call(t, rt, ctest.Count, unsafe.Pointer(&third))
	unix.Write(b, []byte{5})
	if n, err := reader.Wait(context.Background()); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := sleeper.Wait(context.Background()); err != nil {
		t.Error(err)
	}
	atomic.StoreInt32(&stop, 1)
	y1.Wait(context.Background())
	y2.Wait(context.Background())
	unix.Close(a)
	unix.Close(b)
}

// A fiber that does I/O without ever parking lets others run (scenario 10).
func TestBusyIOLetsOthersRun(t *testing.T) {
	rt := openTest(t, Options{Threads: 1, MaxThreads: 1})
	f, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a := [2]int32{int32(f.Fd()), 0}
	busy := spawn(t, rt, ctest.ReadUntil, unsafe.Pointer(&a))
	var counted int32
	call(t, rt, ctest.Count, unsafe.Pointer(&counted))
	atomic.StoreInt32(&a[1], 1)
	if _, err := busy.Wait(context.Background()); err != nil {
		t.Error(err)
	}
}
