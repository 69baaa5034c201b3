package cfiber

import (
	"context"
	"log/slog"
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
	"golang.org/x/sys/unix"
)

// Tests of invariants that would not fail by chance if they did not hold: each
// makes the situation in which they would. docs/faults.md says which is for what.

// The poller of a thread stays open until the last thread has ended (S9).
func TestPollersOutliveThreads(t *testing.T) {
	rt, err := New(Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	call(t, rt, ctest.Return, nil)
	fd := int(rt.thread(0).poller.fd)
	stop := &rt.c.stop
	rt.workers.Add(1) // one more, that is slow to end
	closed := make(chan error)
	go func() { closed <- rt.Close() }()
	await(t, "the threads are told to stop", func() bool { return stop.Load() == 1 })
	for range 100 {
		runtime.Gosched()
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			t.Fatalf("closed under a thread: %v", err)
		}
	}
	select {
	case err := <-closed:
		t.Errorf("closed with a thread alive: %v", err)
	default:
	}
	rt.workers.Done()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// holdLog is a log's handler that holds who logs the message until it is let go.
type holdLog struct {
	slog.Handler
	message      string
	inside, goOn chan struct{}
}

func (h *holdLog) Enabled(context.Context, slog.Level) bool { return true }

func (h *holdLog) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, h.message) {
		h.inside <- struct{}{}
		<-h.goOn
	}
	return nil
}

// The watchdog, which is about to serve the poller of a thread that it took for stuck, finds it
// open, however long it has been under way.
func TestPollersOutliveWatchdog(t *testing.T) {
	hold := &holdLog{slog.DiscardHandler, "blocks its thread", make(chan struct{}), make(chan struct{})}
	rt := openTest(t, Options{Threads: 1, Logger: slog.New(hold)})
	r, w := pipe(t)
	blocker := spawn(t, rt, ctest.BlockRead, number(r))
	<-hold.inside
	p := rt.thread(0).poller
	unix.Write(w, []byte{1})
	if _, err := blocker.Wait(context.Background()); err != nil {
		t.Error(err)
	}
	closed := make(chan error)
	go func() { closed <- rt.Close() }()
	<-rt.stopping // all threads have ended
	for _, fd := range []int32{p.fd, p.wakeFD} {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); fd >= 0 && err != nil {
			t.Errorf("closed under the watchdog: %v", err)
		}
	}
	select {
	case err := <-closed:
		t.Errorf("closed with the watchdog under way: %v", err)
	default:
	}
	close(hold.goOn)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	unix.Close(r)
	unix.Close(w)
}

// Who spawns a fiber may still be waking the thread that it was handed to when the fiber, the last
// one, has ended: the runtime is not freed under it.
func TestSpawnerKeepsRuntime(t *testing.T) {
	rt := openTest(t, Options{Threads: 1})
	f := &Fiber{done: make(chan struct{})}
	if err := rt.start("spawn", f, ctest.Return, nil, nil); err != nil {
		t.Fatal(err)
	}
	await(t, "the fiber is completed", func() bool { return rt.completed.Load() == 1 })
	rt.drain() // looks whether anybody is left
	if isDrained(rt) {
		t.Error("the runtime is freed under a spawner")
	}
	rt.leave() // as Spawn does at its end
	if !isDrained(rt) {
		t.Error("nobody has seen that the last spawner has left")
	}
}

func isDrained(rt *Runtime) bool {
	select {
	case <-rt.drained:
		return true
	default:
		return false
	}
}

// A thread that is being started when the runtime is closed is waited for, and
// stopped like the others (S8).
func TestCloseWhileThreadStarts(t *testing.T) {
	fds := openFDs(t)
	var opened atomic.Int32
	inOpen, goOn := make(chan struct{}), make(chan struct{})
	rt, err := open(Options{Threads: 1, MaxThreads: 2}, func() (cPoller, error) {
		if opened.Add(1) == 2 {
			close(inOpen)
			<-goOn
		}
		return pollerOpen()
	})
	if err != nil {
		t.Fatal(err)
	}
	// A blocked thread and something queued behind it: the watchdog starts one more.
	r, w := pipe(t)
	blocker := spawn(t, rt, ctest.BlockRead, number(r))
	await(t, "the blocker runs", func() bool { return rt.thread(0).running.Load() != 0 })
	queued := spawn(t, rt, ctest.Return, number(3))
	<-inOpen
	unix.Write(w, []byte{1})
	for _, f := range []*Fiber{blocker, queued} {
		if _, err := f.Wait(context.Background()); err != nil {
			t.Error(err)
		}
	}
	closed := make(chan error)
	go func() { closed <- rt.Close() }()
	<-rt.drained
	for range 1000 {
		runtime.Gosched()
	}
	if rt.c.stop.Load() != 0 {
		t.Error("threads are stopped while one is being started")
	}
	close(goOn)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	unix.Close(r)
	unix.Close(w)
	if n := openFDs(t); n != fds {
		t.Errorf("%d descriptors, %d before", n, fds)
	}
}

// Fibers that are handed to a thread which is awake cost no wake-up (S15).
func TestAwakeThreadIsNotWoken(t *testing.T) {
	rt := openTest(t, Options{Threads: 1, MaxThreads: 1})
	var started int32
	var fibers []*Fiber
	for range 50 {
		fibers = append(fibers, spawn(t, rt, ctest.ParkForever, unsafe.Pointer(&started)))
	}
	parked(t, rt, &started, len(fibers))
	spinner, stop := spinning(t, rt)
	await(t, "the spinner runs", func() bool { return rt.thread(0).running.Load() != 0 })
	before := rt.wakes.Load()
	for _, f := range fibers {
		f.Cancel()
	}
	if n := rt.wakes.Load() - before; n != 0 {
		t.Errorf("%d wake-ups of a thread that is awake", n)
	}
	stop()
	for _, f := range append(fibers, spinner) {
		f.Wait(context.Background())
	}
}

// Blocking calls made in a Go function that a fiber has called block the thread,
// and no other fiber of the thread runs meanwhile (invariant 6).
func TestWaitingCallsInsideGo(t *testing.T) {
	for _, threads := range []int{1, 2} {
		rt := openTest(t, Options{Threads: threads})
		r, w := pipe(t)
		var calls atomic.Int32
		ctest.Callback = func(uintptr) uintptr {
			if n := ctest.CallNoFiber(ctest.WithNumber(ctest.SleepNS, int(time.Millisecond))); n != 0 {
				return 1
			}
			unix.Write(w, []byte{7})
			if n := ctest.CallNoFiber(ctest.WithNumber(ctest.ReadFD, r)); n != 7 {
				return 2
			}
			calls.Add(1)
			return 0
		}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if got := call(t, rt, ctest.CallGo, nil); got != 0 {
					t.Errorf("%d threads: step %d failed", threads, got)
				}
				call(t, rt, ctest.YieldPair, number(100))
			})
		}
		wg.Wait()
		if calls.Load() != 20 {
			t.Errorf("%d calls", calls.Load())
		}
		unix.Close(r)
		unix.Close(w)
	}
}

// errno is the same after a call of a Go function as before it.
func TestErrnoOverGoCall(t *testing.T) {
	for _, migrate := range []bool{false, true} {
		rt := openTest(t, Options{Migrate: migrate})
		ctest.Callback = func(uintptr) uintptr {
			ctest.CallNoFiber(ctest.WithNumber(ctest.ReadFD, -1)) // leaves EBADF
			os.Open("/nowhere/at/all")
			return 0
		}
		for _, want := range []int{int(syscall.ERANGE), int(syscall.EDOM)} {
			if got := call(t, rt, ctest.ErrnoOverGo, number(want)); got != want {
				t.Errorf("errno %d, want %d", got, want)
			}
		}
	}
}

// A descriptor registered with one thread's poller, and a timer set there, serve
// fibers elsewhere also while that thread is stuck (invariant 7).
func TestStuckThreadsEventsAreServed(t *testing.T) {
	rt := openTest(t, Options{Threads: 1})
	a, b := socketpair(t, unix.SOCK_STREAM)
	first := [2]int32{int32(a), 0}
	reader := spawn(t, rt, ctest.ReadByte, unsafe.Pointer(&first))
	parked(t, rt, &first[1], 1) // registers a with thread 0
	unix.Write(b, []byte{1})
	if n, err := reader.Wait(context.Background()); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	var slept int32
	sleeper := spawn(t, rt, ctest.SleepAndCount, unsafe.Pointer(&slept), Attr{Migratable: true})
	await(t, "the sleeper sleeps", func() bool { return atomic.LoadInt32(&slept) == 1 && rt.Stats().IdleThreads == 1 })

	r, w := pipe(t)
	blocker := spawn(t, rt, ctest.BlockRead, number(r))
	await(t, "the blocker runs", func() bool { return rt.thread(0).running.Load() != 0 })
	second := [2]int32{int32(a), 0}
	reader = spawn(t, rt, ctest.ReadByte, unsafe.Pointer(&second))
	await(t, "the reader runs on another thread", func() bool { return atomic.LoadInt32(&second[1]) == 1 })
	unix.Write(b, []byte{2})
	if n, err := reader.Wait(context.Background()); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := sleeper.Wait(context.Background()); err != nil {
		t.Error(err)
	}
	select {
	case <-blocker.Done():
		t.Error("nothing was blocked")
	default:
	}
	unix.Write(w, []byte{1})
	blocker.Wait(context.Background())
	for _, fd := range []int{a, b, r, w} {
		unix.Close(fd)
	}
}

// A cancel from Go does not end a wait under a shield.
func TestCancelUnderShield(t *testing.T) {
	for _, migrate := range []bool{false, true} {
		rt := openTest(t, Options{Migrate: migrate})
		var n int32
		f := spawn(t, rt, ctest.ShieldedSleep, unsafe.Pointer(&n))
		parked(t, rt, &n, 1)
		f.Cancel()
		if got, _ := f.Wait(context.Background()); got != 1 || atomic.LoadInt32(&n) != 2 {
			t.Errorf("migrate %v: %d, counted %d", migrate, got, n)
		}
	}
}

// Shutdown also sees the end of fibers that only C knows of.
func TestShutdownWaitsForDetached(t *testing.T) {
	for range 5 {
		rt, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		n := new(int32)
		if got := call(t, rt, ctest.LeaveBehind, unsafe.Pointer(n)); got != 0 {
			t.Fatal(got)
		}
		if err := rt.Shutdown(context.Background()); err != nil || atomic.LoadInt32(n) != 2 {
			t.Errorf("%v, counted %d", err, *n)
		}
	}
}

// In a runtime that is being closed C cannot spawn either.
func TestSpawnInCWhileClosing(t *testing.T) {
	rt, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := new(int32)
	f := spawn(t, rt, ctest.SpawnWhenCanceled, unsafe.Pointer(n))
	parked(t, rt, n, 1)
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
	if got, _ := f.Wait(context.Background()); got != int(syscall.ECANCELED) {
		t.Errorf("spawn failed with %d", got)
	}
}

// The watchdog, asleep while all is idle, wakes for a thread that blocks (invariant 7).
func TestWatchdogWakes(t *testing.T) {
	rt := openTest(t, Options{Threads: 1})
	call(t, rt, ctest.Return, nil)
	for range 3 {
		await(t, "the watchdog sleeps", func() bool { return rt.c.watchdogAsleep.Load() == 1 })
		r, w := pipe(t)
		blocker := spawn(t, rt, ctest.BlockRead, number(r))
		await(t, "the blocker runs", func() bool { return rt.thread(0).running.Load() != 0 || rt.Stats().Threads > 1 })
		if got := call(t, rt, ctest.Return, number(4)); got != 4 {
			t.Error(got)
		}
		unix.Write(w, []byte{1})
		if _, err := blocker.Wait(context.Background()); err != nil {
			t.Error(err)
		}
		unix.Close(r)
		unix.Close(w)
	}
}

// A thousand stacks that were deep at once are trimmed when their fibers end (fault 11).
func TestBurstOfDeepStacks(t *testing.T) {
	rt := openTest(t, Options{Threads: 1})
	const n = 1000
	var started int32
	var fibers []*Fiber
	for range n {
		fibers = append(fibers, spawn(t, rt, ctest.RecurseAndPark, unsafe.Pointer(&started)))
	}
	parked(t, rt, &started, n)
	deep := residentBytes(t)
	for _, f := range fibers {
		f.Cancel()
	}
	for _, f := range fibers {
		f.Wait(context.Background())
	}
	// Some 160 KiB each were touched. What stays: 16 KiB each, and 64 stacks.
	if back := deep - residentBytes(t); back < n*100<<10 {
		t.Errorf("%d KiB given back of %d", back>>10, deep>>10)
	}
}

// endUntold makes a fiber that has ended and that nobody has delivered: the core tells of none
// until attend, as while a caller looks.
func endUntold(t *testing.T, rt *Runtime) *Fiber {
	t.Helper()
	await(t, "the core tells of nothing", func() bool { return rt.c.notified.CompareAndSwap(0, 1) })
	finished := rt.Stats().Finished
	f := spawn(t, rt, ctest.Return, number(6))
	await(t, "the fiber has ended", func() bool {
		return rt.Stats().Finished > finished && (rt.c.completions.Load() != 0 || isDone(f))
	})
	return f
}

func isDone(f *Fiber) bool {
	select {
	case <-f.Done():
		return true
	default:
		return false
	}
}

// The last fiber may be completed by the watchdog, when all others have looked whether one is left.
func TestWatchdogCompletesLastFiber(t *testing.T) {
	rt := openTest(t, Options{Threads: 1})
	f := endUntold(t, rt)
	f.mu.Lock() // complete waits here
	rt.helpers.Add(1)
	go func() {
		defer rt.helpers.Done()
		rt.relieve(rt.thread(0))
	}()
	await(t, "the completion is taken", func() bool { return rt.c.completions.Load() == 0 })
	rt.drain()
	f.mu.Unlock()
	await(t, "the runtime is drained", func() bool { return isDrained(rt) })
}
