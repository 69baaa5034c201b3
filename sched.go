package cfiber

import (
	"log/slog"
	"os"
	"runtime"
	"time"
)

// Scheduling, the half that Go does: schedule() for work that starts or is woken
// in Go, growing and stopping the set of threads, and the watchdog. The half
// that switches, in C, is csrc/sched.c. Neither half needs the other to act: they
// meet in the atomics of layout.go.

// schedule hands the chain of ready fibers first ... last, newest first, all of
// which may run anywhere, to somebody. After schedule() of Zig's std.Io.Kqueue:
//
//  1. Idle search: hand it to one of maxIdleSearch threads, if it is idle.
//  2. Spawn: start one more thread with it, if there may be one more.
//  3. Self. Go has no queue of its own: put it where all threads look, and see
//     to it that one looks.
//
// When a thread is looking for work, it finds this sooner than one that would have to be
// woken or started: then the third step is the first.
func (rt *Runtime) schedule(first, last *cFiber) {
	last.next = 0
	if rt.c.searching.Load() == searchingNobody {
		if rt.c.idle.Load() > 0 {
			if t := rt.idleSearch(first, last, maxIdleSearch); t != nil {
				rt.wakeThread(t)
				return
			}
		}
		if rt.c.reserved.Load() < rt.c.limit.Load() && rt.grow(first) {
			return
		}
	}
	rt.inject(first, last)
	chaosDelay("PUBLISHED")
	rt.wakeSearcher()
}

// thread returns the thread in slot i. Threads are in one array.
func (rt *Runtime) thread(i uint32) *cThread {
	return pointerTo[cThread](rt.threads + uintptr(i)*rt.threadSize)
}

// ---- Growing and stopping ----------------------------------------------------

// growRetry is how long after a failure no thread is started.
const growRetry = time.Second

// grow starts one more thread with the chain, which is terminated (nil: none), as
// its ready queue.
// If its poller cannot be made, the reservation is given back and it returns
// false: the others go on.
func (rt *Runtime) grow(first *cFiber) bool {
	rt.growMu.Lock()
	defer rt.growMu.Unlock()
	i := rt.c.reserved.Load()
	if i >= rt.c.limit.Load() || rt.c.stop.Load() != 0 || time.Since(rt.growFailed) < growRetry {
		return false
	}
	rt.c.reserved.Store(i + 1)
	chaosDelay("RESERVED")
	t := rt.thread(i)
	bridgeThreadInit(rt.c, i)
	p, err := rt.openPoller()
	if err != nil {
		rt.c.reserved.Store(i)
		rt.growFailed = time.Now()
		rt.log.Warn("cfiber: cannot start one more thread; going on with those there are",
			slog.Any("error", err), slog.Int("threads", int(i)))
		return false
	}
	t.poller = p
	if first != nil {
		t.readyQueue.Store(addressOf(first))
	}
	rt.workers.Add(1)
	// From here on the thread is counted: all its shared fields are set. Not after its
	// start: it could fall idle, or push fibers, where nobody looks yet.
	announce(&rt.c.active, i+1)
	chaosDelay("ACTIVE")
	go rt.worker(t)
	return true
}

// worker is the life of one thread.
func (rt *Runtime) worker(t *cThread) {
	runtime.LockOSThread()
	returned := false
	defer func() {
		// What gets here without returning has unwound this stack but not those of
		// the fibers. A panic goes on to end the program, with Go's report. For
		// runtime.Goexit there is nothing to go on to.
		if !returned && !panicking() {
			f := pointerTo[cFiber](t.running.Load())
			rt.log.Error("cfiber: runtime.Goexit in a Go function called from a fiber", fiberAttrs(f)...)
			os.Exit(2)
		}
	}()
	err := bridgeThreadRun(t)
	returned = true
	if err != nil {
		rt.log.Error("cfiber: a thread could not run", slog.Any("error", err))
	}
	runtime.UnlockOSThread()
	rt.workers.Done()
}

// panicking reports whether the caller, a deferred function, runs because of a
// panic. (recover would tell too, but take the panic's report away.)
func panicking() bool {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	for {
		f, more := frames.Next()
		if f.Function == "runtime.gopanic" {
			return true
		}
		if !more {
			return false
		}
	}
}

// stopThreads ends all threads. No fiber is alive any more. Their pollers stay until bridgeClose: the
// watchdog may be about to serve one that it took for stuck.
func (rt *Runtime) stopThreads() {
	// A thread that is just being started is waited for: then reserved == active.
	rt.growMu.Lock()
	announce(&rt.c.stop, 1)
	n := rt.c.active.Load()
	rt.growMu.Unlock()
	chaosDelay("STOP")
	for i := range n {
		rt.wakeThread(rt.thread(i))
	}
	rt.workers.Wait()
}

// wakeAll makes every thread go once around its loop.
func (rt *Runtime) wakeAll() {
	for i := range rt.c.active.Load() {
		rt.wakeThread(rt.thread(i))
	}
}

// ---- The watchdog ----------------------------------------------------------------

const (
	watchdogPeriod = 10 * time.Millisecond
	// After so many rounds in which all threads were idle, it sleeps until one wakes.
	watchdogIdleRounds = 10
)

// A watched is what the watchdog remembers of a thread.
type watched struct {
	switches uint64
	running  uintptr
	rounds   int   // in which it has been inside the same run of the same fiber
	cpu      int64 // its CPU time at the last round
	blocked  bool  // counted in Runtime.blocked
}

// watchdog looks after threads that do not come back from a fiber: it is stuck
// in a blocking system call, in Go, or it computes. What is queued behind it
// and may move goes elsewhere; a thread that blocks, rather than computes, is
// replaced while it does. When all threads are idle the watchdog has no timer.
func (rt *Runtime) watchdog() {
	defer rt.helpers.Done()
	ticker := time.NewTicker(watchdogPeriod)
	defer ticker.Stop()
	var seen []watched
	idleRounds := 0
	for {
		select {
		case <-rt.stopping:
			return
		case <-ticker.C:
		}
		rt.rounds.Add(1)
		n := int(rt.c.active.Load())
		for len(seen) < n {
			seen = append(seen, watched{})
		}
		busy := false
		for i := range n {
			if rt.watch(rt.thread(uint32(i)), &seen[i]) {
				busy = true
			}
		}
		if rt.blocked > 0 && rt.blocked == int(rt.c.active.Load()) && rt.ending.Load() > 0 {
			rt.endCanceled()
		}
		if idleRounds++; busy {
			idleRounds = 0
		}
		if idleRounds < watchdogIdleRounds {
			continue
		}
		idleRounds = 0
		ticker.Stop()
		if !rt.watchdogSleep() {
			return
		}
		ticker.Reset(watchdogPeriod)
	}
}

// watchdogSleep waits until a thread wakes from idling. False: the runtime stops.
func (rt *Runtime) watchdogSleep() bool {
	select { // what an earlier wake has left
	case <-rt.watchdogWake:
	default:
	}
	announce(&rt.c.watchdogAsleep, 1)
	chaosDelay("WATCHDOG_SLEEPS")
	// A thread that woke before the store has not told; it is not idle now.
	if rt.c.idle.Load() < rt.c.active.Load() {
		rt.c.watchdogAsleep.Store(0)
		return true
	}
	select {
	case <-rt.watchdogWake:
		return true
	case <-rt.stopping:
		return false
	}
}

// watch looks at one thread; it reports whether the thread is busy.
func (rt *Runtime) watch(t *cThread, w *watched) bool {
	running, switches := t.running.Load(), t.switches.Load()
	if running == 0 || running != w.running || switches != w.switches {
		*w = watched{switches: switches, running: running, blocked: w.blocked, cpu: -1}
		rt.setBlocked(w, false)
		return t.readyQueue.Load() != readyIdle
	}
	// Inside the same fiber for a whole round, at least 10 ms.
	w.rounds++
	cpu := bridgeCPUTime(t)
	if w.rounds > 1 && w.cpu >= 0 && cpu >= 0 {
		blocks := cpu-w.cpu < int64(watchdogPeriod)/4 && !isRunnable(t.osThread)
		if blocks && !w.blocked {
			rt.log.Warn("cfiber: a fiber blocks its thread", fiberAttrs(pointerTo[cFiber](running))...)
		}
		rt.setBlocked(w, blocks)
	}
	w.cpu = cpu
	chaosDelay("STUCK")
	rt.relieve(t)
	return true
}

// setBlocked counts the thread among the blocked ones, or no longer; as many
// threads may be started in addition.
func (rt *Runtime) setBlocked(w *watched, blocked bool) {
	if w.blocked == blocked {
		return
	}
	w.blocked = blocked
	if blocked {
		rt.blocked++
	} else {
		rt.blocked--
	}
	rt.c.limit.Store(min(uint32(rt.opts.Threads+rt.blocked), rt.c.allocated))
	if blocked && rt.blocked == int(rt.c.allocated) {
		rt.log.Warn("cfiber: fibers block all threads there may be, no other can run until one of them goes on; raise Options.MaxThreads",
			slog.Int("max_threads", rt.blocked))
	}
}

// relieve takes from a stuck thread what others can do: its events and timers, the fibers on its
// ring and those handed to it, and the completions that it has yet to tell of.
func (rt *Runtime) relieve(t *cThread) {
	bridgeServe(t)
	if rt.deliver() { // it may not have told of all
		rt.checkDrained() // who else looks may have done so meanwhile
	}
	if first, last := rt.takeMovable(t); first != nil {
		chaosDelay("TAKEN")
		rt.schedule(first, last)
	}
	if !rt.stealable() {
		return
	}
	if rt.c.idle.Load() > 0 {
		rt.wakeSearcher()
	} else {
		rt.grow(nil)
	}
}

// stealable reports whether there are fibers that any thread may take.
func (rt *Runtime) stealable() bool {
	if rt.c.injected.Load() != 0 || rt.c.globalSize.Load() != 0 {
		return true
	}
	for i := range rt.c.active.Load() {
		if t := rt.thread(i); int32(t.ringTail.Load()-t.ringHead.Load()) > 0 {
			return true
		}
	}
	return false
}

// ---- From the core to Go -------------------------------------------------------------

// control does what the core asks for. It waits in Go's netpoller, so it needs no thread.
func (rt *Runtime) control() {
	defer rt.helpers.Done()
	var buf [64]byte
	for {
		if _, err := rt.notifyR.Read(buf[:]); err != nil {
			return // closed
		}
		rt.attend(true)
	}
}

// attend delivers completions, starts threads, and wakes the watchdog, until there is
// nothing left. From then on the core tells, by a system call, when there is again.
func (rt *Runtime) attend(loaded bool) {
	chaosDelay("ATTEND")
	for again := true; again; {
		rt.deliver()
		if rt.c.wantThread.Load() != 0 {
			rt.grow(nil)
			chaosDelay("THREAD_WANTED")
			announce(&rt.c.wantThread, 0)
		}
		if loaded {
			// The next completions are there by now; taking them here saves the core
			// a system call.
			runtime.Gosched()
			if rt.deliver() {
				continue
			}
		}
		chaosDelay("DELIVERED")
		announce(&rt.c.notified, 0)
		chaosDelay("NOT_NOTIFIED")
		again = rt.c.completions.Load() != 0 || rt.c.wantThread.Load() != 0
	}
	if rt.c.watchdogAsleep.Load() == 0 {
		select {
		case rt.watchdogWake <- struct{}{}:
		default:
		}
	}
	rt.checkDrained()
}

// deliver takes the ended fibers and completes their handles.
func (rt *Runtime) deliver() bool {
	if rt.c.completions.Load() == 0 {
		return false
	}
	head := rt.c.completions.Swap(0)
	if head == 0 {
		return false // somebody else was faster
	}
	raceEnd()
	chaosDelay("COMPLETION")
	for p := head; p != 0; {
		c := pointerTo[cFiber](p)
		p = c.next
		rt.complete(c)
	}
	return true
}

// fiberAttrs names a fiber for a log line.
func fiberAttrs(f *cFiber) []any {
	if f == nil {
		return nil
	}
	return []any{slog.Uint64("fiber", f.id), slog.String("name", fiberName(f)),
		slog.String("entry", entryName(uintptr(f.fn)))}
}
