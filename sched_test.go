package cfiber

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
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

// A fiber spawned by a busy one starts at once where a thread is idle, and the
// busy thread is not taken for an idle one (S3). The spawner computes until the
// child has run, so it cannot have run on the same thread.
func TestSpawnFromBusyFiber(t *testing.T) {
	rt := openTest(t, Options{Threads: 2})
	for range 200 {
		if n := call(t, rt, ctest.SpawnAndSpin, nil); n != 0 {
			t.Fatal(n)
		}
	}
}

// The same from Go: all but one thread compute.
func TestSpawnBesideBusyThreads(t *testing.T) {
	rt := openTest(t, Options{Threads: 4})
	for range 3 {
		spinner, stop := spinning(t, rt)
		defer spinner.Wait(context.Background())
		defer stop()
	}
	for i := range 100 {
		if got := call(t, rt, ctest.Return, number(i)); got != i {
			t.Error(got)
		}
	}
}

// A thread that is started with a fiber is started with that one alone, whatever
// the record was linked to in its last life.
func TestGrowWithUsedRecord(t *testing.T) {
	for seen, tries := 0, 0; seen < 20; tries++ {
		if tries == 1000 {
			t.Fatalf("a thread was started with a fiber in %d of %d runtimes", seen, tries)
		}
		rt := openTest(t, Options{Threads: 2})
		for range 3 {
			idle(t, rt)                    // so that no second thread is started
			call(t, rt, ctest.Return, nil) // these records are used again, last first
		}
		idle(t, rt)
		spinner, stop := spinning(t, rt)
		// On a loaded machine the first thread may take so long to wake that a second is started.
		second := func() bool { return rt.Stats().Threads == 2 }
		await(t, "the first thread is busy", func() bool {
			return second() || rt.thread(0).running.Load() != 0 && rt.c.idle.Load() == 0
		})
		if !second() {
			seen++
		}
		if got := call(t, rt, ctest.Return, number(8)); got != 8 {
			t.Error(got)
		}
		stop()
		spinner.Wait(context.Background())
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestThreadLimit(t *testing.T) {
	rt := openTest(t, Options{Threads: 3})
	var wg sync.WaitGroup
	for range 500 {
		wg.Go(func() { call(t, rt, ctest.SleepNS, number(time.Millisecond)) })
	}
	wg.Wait()
	if n := rt.Stats().Threads; n < 1 || n > 3 {
		t.Errorf("%d threads", n)
	}
}

// One thread, blocked by one fiber: those queued behind it run on a replacement,
// and a line names the fiber. A computing fiber gets no replacement (scenario 10).
func TestWatchdog(t *testing.T) {
	var log syncBuilder
	rt := openTest(t, Options{Threads: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	r, w := pipe(t)
	blocker := spawn(t, rt, ctest.BlockRead, number(r), Attr{Name: "blocker"})
	await(t, "the blocker runs", func() bool { return rt.thread(0).running.Load() != 0 })
	for i := range 100 {
		if got := call(t, rt, ctest.Return, number(i)); got != i {
			t.Error(got)
		}
	}
	if n := rt.Stats().Threads; n != 2 {
		t.Errorf("%d threads", n)
	}
	unix.Write(w, []byte{1})
	if n, err := blocker.Wait(context.Background()); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if s := log.String(); strings.Count(s, "blocks its thread") != 1 || !strings.Contains(s, "name=blocker") {
		t.Errorf("log: %q", s)
	}
	unix.Close(r)
	unix.Close(w)
}

// When fibers block as many threads as there may be, a line says so, and what to do: if they wait
// for other fibers, as in Go functions that use Call, they do so for ever.
func TestAllThreadsBlockedIsTold(t *testing.T) {
	var log syncBuilder
	rt := openTest(t, Options{Threads: 1, MaxThreads: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	r, w := pipe(t)
	var blockers []*Fiber
	for i := range uint32(2) {
		blockers = append(blockers, spawn(t, rt, ctest.BlockRead, number(r)))
		await(t, "a thread that is blocked", func() bool {
			return strings.Count(log.String(), "blocks its thread") == int(i)+1
		})
		if told := strings.Contains(log.String(), "raise Options.MaxThreads"); i == 0 && told {
			t.Errorf("too early: %q", log.String())
		}
	}
	await(t, "the line", func() bool {
		return strings.Count(log.String(), `raise Options.MaxThreads" max_threads=2`) == 1
	})
	unix.Write(w, []byte{1, 1})
	for _, f := range blockers {
		if n, err := f.Wait(context.Background()); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	unix.Close(r)
	unix.Close(w)
}

// Go functions on fibers that call others, deeper than there may be threads, end when their context does:
// the call that no thread is left for is given up, and the others go on.
func TestCallsNestedBeyondMaxThreads(t *testing.T) {
	var log syncBuilder
	rt := openTest(t, Options{Threads: 1, MaxThreads: 3, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ctx, cancel := context.WithCancelCause(context.Background())
	errs := make(chan error, 10)
	var fn unsafe.Pointer
	fn = newCallback(t, func(unsafe.Pointer) int {
		n, err := rt.Call(ctx, fn, nil)
		errs <- err
		return n + 1
	})
	go func() {
		await(t, "all threads are blocked", func() bool {
			return strings.Contains(log.String(), "raise Options.MaxThreads")
		})
		cancel(io.ErrUnexpectedEOF)
	}()
	n, err := rt.Call(ctx, fn, nil)
	errs <- err
	if n != 3 || len(errs) != 4 {
		t.Errorf("depth %d, %d errors", n, len(errs))
	}
	for i := range len(errs) {
		err := <-errs
		if i > 0 && err == nil {
			continue // it has ended before it was told of the cancel
		}
		for _, is := range []error{ErrCanceled, context.Canceled, io.ErrUnexpectedEOF} {
			if !errors.Is(err, is) {
				t.Errorf("call %d from within: %v", i, err)
			}
		}
		if errors.Is(err, ErrNotStarted) != (i == 0) {
			t.Errorf("call %d from within: %v", i, err)
		}
	}
	if s := rt.Stats(); s.Live != 0 || s.Spawned != 4 {
		t.Errorf("%+v", s)
	}
}

// Behind a fiber that blocks the only thread, those that are cancelled end, wherever they are queued,
// and those that are not stay.
func TestCanceledBehindBlockedThread(t *testing.T) {
	rt := openTest(t, Options{Threads: 1, MaxThreads: 1, Logger: slog.New(slog.DiscardHandler)})
	spinner, stop := spinning(t, rt)
	await(t, "the spinner runs", func() bool { return rt.thread(0).running.Load() != 0 })
	release, inside := make(chan int), make(chan int)
	blocker := spawn(t, rt, newCallback(t, func(unsafe.Pointer) int { close(inside); return <-release }), nil)
	var fibers []*Fiber
	queue := func() {
		for i := range 10 {
			fibers = append(fibers, spawn(t, rt, ctest.Return, number(i)))
		}
	}
	queue() // on the ring, when the thread comes to look
	stop()
	<-inside
	queue() // from Go
	for i, f := range fibers {
		if i%2 == 0 {
			f.Cancel()
		}
	}
	for i, f := range fibers {
		if i%2 == 0 {
			n, err := f.Wait(context.Background())
			if n != 0 || !errors.Is(err, ErrCanceled) || !errors.Is(err, ErrNotStarted) {
				t.Errorf("%d, %v", n, err)
			}
		}
	}
	if s := rt.Stats(); s.Live != 11 {
		t.Errorf("%+v", s)
	}
	release <- 7
	for i, f := range append(fibers, spinner, blocker) {
		if n, err := f.Wait(context.Background()); i%2 == 1 && i < 20 && (n != i%10 || err != nil) {
			t.Errorf("%d: %d, %v", i, n, err)
		}
	}
}

// Close ends a runtime in which Go functions on all threads wait for calls that have not begun.
func TestCloseWithNestedCalls(t *testing.T) {
	rt := openTest(t, Options{Threads: 1, MaxThreads: 1, Logger: slog.New(slog.DiscardHandler)})
	inside := make(chan int)
	fn := newCallback(t, func(unsafe.Pointer) int {
		close(inside)
		fn, arg := ctest.WithNumber(ctest.Return, 1)
		_, err := rt.Call(context.Background(), fn, arg)
		if !errors.Is(err, ErrNotStarted) {
			t.Error(err)
		}
		return 5
	})
	f := spawn(t, rt, fn, nil)
	<-inside
	await(t, "the call from within is queued", func() bool { return rt.c.injected.Load() != 0 })
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
	if n, err := f.Wait(context.Background()); n != 5 || !errors.Is(err, ErrCanceled) {
		t.Errorf("%d, %v", n, err)
	}
}

// What a thread takes of the global queue, with others on its ring, is not stuck behind one that
// blocks the thread.
func TestAdmittedTogether(t *testing.T) {
	for range 10 {
		rt := openTest(t, Options{Threads: 1, MaxThreads: 3, Logger: slog.New(slog.DiscardHandler)})
		var stop int32
		var fibers []*Fiber
		for range 2 {
			fibers = append(fibers, spawn(t, rt, ctest.YieldUntil, unsafe.Pointer(&stop), Attr{Migratable: true}))
		}
		open := make(chan int)
		blocker := newCallback(t, func(unsafe.Pointer) int { <-open; return 0 })
		opener := newCallback(t, func(unsafe.Pointer) int { close(open); return 0 })
		fibers = append(fibers, spawn(t, rt, newCallback(t, func(unsafe.Pointer) int {
			// The thread finds both of them at once.
			fibers = append(fibers, spawn(t, rt, blocker, nil), spawn(t, rt, opener, nil))
			return 0
		}), nil))
		await(t, "the blocker is let go", func() bool {
			select {
			case <-open:
				return true
			default:
				return false
			}
		})
		atomic.StoreInt32(&stop, 1)
		if err := rt.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

type syncBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuilder) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuilder) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestComputingFiberIsNotReplaced(t *testing.T) {
	if !isRunnableKnown() {
		t.Skip("the system does not tell threads that compute from threads that block")
	}
	rt := openTest(t, Options{Threads: 1})
	spinner, stop := spinning(t, rt)
	await(t, "the spinner runs", func() bool { return rt.thread(0).running.Load() != 0 })
	queued := spawn(t, rt, ctest.Return, number(1))
	rounds := rt.rounds.Load()
	await(t, "ten rounds of the watchdog", func() bool { return rt.rounds.Load() > rounds+10 })
	if n := rt.Stats().Threads; n != 1 {
		t.Errorf("%d threads", n)
	}
	stop()
	for _, f := range []*Fiber{spinner, queued} {
		if _, err := f.Wait(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func isRunnableKnown() bool { return runtime.GOOS == "linux" }

// Serving a thread's poller from outside does not swallow the thread's wake-up.
func TestServeKeepsWakeUp(t *testing.T) {
	rt := openTest(t, Options{Threads: 1, MaxThreads: 2})
	idle(t, rt)
	th := rt.thread(1) // nobody runs it
	bridgeThreadInit(rt.c, 1)
	p, err := pollerOpen()
	if err != nil {
		t.Fatal(err)
	}
	defer pollerClose(p)
	th.poller = p
	pollerWake(p)
	bridgeServe(th)
	fds := []unix.PollFd{{Fd: p.fd, Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 0); n != 1 || err != nil {
		t.Errorf("the wake-up is gone: %d, %v", n, err)
	}
}

// What a stuck thread was handed is taken from it, in order, but not what is at
// home there (invariant 7).
func TestTakeMovable(t *testing.T) {
	rt := openTest(t, Options{Threads: 1})
	th := new(cThread)
	th.poller = rt.thread(0).poller
	th.readyQueue.Store(readyBusy)
	fibers := make([]cFiber, 6)
	for i := range fibers {
		if i%2 == 0 {
			fibers[i].flags = flagStarted
		}
		rt.handOver(th, &fibers[i], &fibers[i])
	}
	var got []int
	first, _ := rt.takeMovable(th)
	for f := first; f != nil; f = pointerTo[cFiber](f.next) {
		got = append(got, int(uintptr(unsafe.Pointer(f))-uintptr(unsafe.Pointer(&fibers[0])))/int(unsafe.Sizeof(*f)))
	}
	if len(got) != 3 || got[0] != 5 || got[1] != 3 || got[2] != 1 {
		t.Errorf("taken: %v", got)
	}
	var left []int
	for p := th.readyQueue.Load(); p > readyBusy; p = pointerTo[cFiber](p).next {
		left = append(left, int(p-addressOf(&fibers[0]))/int(unsafe.Sizeof(fibers[0])))
	}
	if len(left) != 3 || left[0] != 4 || left[1] != 2 || left[2] != 0 {
		t.Errorf("left: %v", left)
	}
	if first, _ := rt.takeMovable(th); first != nil {
		t.Error("taken twice")
	}
	runtime.KeepAlive(fibers)
}

// A fiber stays on the thread that first ran it, unless it is migratable: then,
// if two threads compete for it, it moves (invariant 5, S2).
func TestPinnedFibersStay(t *testing.T) {
	rt := openTest(t, Options{Threads: 4})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if moves := call(t, rt, ctest.CountMoves, nil); moves != 0 {
				t.Errorf("%d moves", moves)
			}
		})
	}
	wg.Wait()
}

func TestMigratableFibersMove(t *testing.T) {
	rt := openTest(t, Options{Threads: 4, Migrate: true})
	var moves atomic.Int64
	await(t, "a fiber has moved", func() bool {
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { moves.Add(int64(call(t, rt, ctest.CountMoves, nil))) })
		}
		wg.Wait()
		return moves.Load() > 0
	})
}

// With nothing to do the runtime does nothing: no wake-ups, no rounds, no CPU
// (S6, invariant 8).
func TestIdle(t *testing.T) {
	rt := openTest(t, Options{Threads: 4})
	var started int32
	var fibers []*Fiber
	for range 100 {
		fibers = append(fibers, spawn(t, rt, ctest.ParkForever, unsafe.Pointer(&started)))
	}
	a, b := socketpair(t, unix.SOCK_STREAM)
	reader := spawn(t, rt, ctest.ReadFD, number(a))
	parked(t, rt, &started, 100)
	await(t, "the watchdog sleeps", func() bool { return rt.c.watchdogAsleep.Load() == 1 })
	idle(t, rt)
	cpu, before := processCPU(), rt.Stats()
	time.Sleep(500 * time.Millisecond) // the time over which nothing must happen
	after := rt.Stats()
	if after.Waits != before.Waits || after.Switches != before.Switches || after.Rounds != before.Rounds {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
	// Go's own threads may use some; a spinning thread would use all of it.
	if used := processCPU() - cpu; used > 200*time.Millisecond {
		t.Errorf("%v of CPU in 500 ms", used)
	}
	unix.Write(b, []byte{4})
	if n, err := reader.Wait(context.Background()); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, f := range fibers {
		f.Cancel()
	}
	unix.Close(a)
	unix.Close(b)
}

func processCPU() time.Duration {
	var ru unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// A hundred thousand fibers parked at once, in bounded memory, threads and
// mappings; all end when the runtime is closed.
func TestManyParked(t *testing.T) {
	n := 100_000
	if testing.Short() || raceEnabled {
		n = 10_000
	}
	rt, err := New(Options{CloseTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var started int32
	mem, maps, ths := residentBytes(t), mappings(t), threads(t)
	fibers := make([]*Fiber, n)
	for i := range fibers {
		fibers[i] = spawn(t, rt, ctest.ParkForever, unsafe.Pointer(&started))
	}
	parked(t, rt, &started, n)
	per := (residentBytes(t) - mem) / n
	t.Logf("%d fibers: %d bytes resident each (Go's handles included), %d more mappings, %d more threads, guards: %s",
		n, per, mappings(t)-maps, threads(t)-ths, rt.Stats().Guards)
	// The sanitizers and an emulator keep more than the pages that there are.
	if per > 6<<10 && !raceEnabled && !asanEnabled && emulator() == nil {
		t.Errorf("%d bytes resident per fiber", per)
	}
	if rt.Stats().Guards == "install" && mappings(t)-maps > 500 {
		t.Errorf("%d more mappings", mappings(t)-maps)
	}
	if got := threads(t) - ths; got > runtime.GOMAXPROCS(0)+4 {
		t.Errorf("%d more threads", got)
	}
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
	for _, f := range fibers {
		<-f.Done()
	}
}

func mappings(t testing.TB) int {
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	return strings.Count(string(b), "\n")
}

// Profiling, signals, a restless collector and preemption, with fibers running
// and calling Go (fault 2).
func TestSignalsAndProfiling(t *testing.T) {
	rt := openTest(t, Options{Threads: 2})
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	var profile syncBuilder
	if err := pprof.StartCPUProfile(&profile); err == nil {
		defer pprof.StopCPUProfile()
	}
	usr := make(chan os.Signal, 1)
	signal.Notify(usr, syscall.SIGUSR1)
	defer signal.Stop(usr)
	ctest.Callback = func(n uintptr) uintptr {
		return uintptr(len(strings.Repeat("x", 1000))) + n - 1000
	}
	until := time.Now().Add(300 * time.Millisecond)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for time.Now().Before(until) {
				if got := call(t, rt, ctest.CallGoDeep, number(i)); got != i {
					t.Error(got)
				}
				call(t, rt, ctest.YieldPair, number(1000))
			}
		})
	}
	received := 0
	for time.Now().Before(until) {
		unix.Kill(unix.Getpid(), unix.SIGUSR1)
		<-usr
		received++
	}
	wg.Wait()
	t.Logf("%d signals", received)
}
