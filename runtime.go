package cfiber

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a Runtime. The zero value works.
type Options struct {
	// Threads is how many OS threads run fibers; 0 is GOMAXPROCS.
	Threads int
	// MaxThreads bounds Threads and the threads that stand in for those that a
	// fiber blocks; 0 is Threads + 16.
	MaxThreads int
	// StackSize is the usable stack of a fiber in bytes, 16 KiB to 1 GiB, rounded
	// up to pages; 0 is 256 KiB. Only touched pages cost memory.
	StackSize int
	// MaxFibers is how many fibers may be alive at once, those spawned by C
	// included; 0 is 2^24. Above 65,535 the limit may be met some hundred early.
	MaxFibers int
	// Migrate makes every fiber migratable; see Attr.Migratable.
	Migrate bool
	// CloseTimeout is how long Close waits for cancelled fibers to end; 0 is 5 s.
	CloseTimeout time.Duration
	// Library is the path of libcfiber, for programs without cgo, which load it; it
	// is an error in others, which contain it. Empty means $CFIBER_LIBRARY, or else
	// what the system's loader finds by the name of libcfiber. A program has one:
	// once it is loaded, another is an error.
	Library string
	// Logger gets a warning where the runtime goes on with less; nil is
	// slog.Default().
	Logger *slog.Logger
}

// The states of a runtime, in their order.
const (
	stateUnopened = iota // of a Runtime that New has not made
	stateOpen
	stateDraining
	stateClosed
)

// A Runtime runs C functions on fibers, on a few threads. Its methods may be
// called from any goroutine. A program usually has one. New makes it: on a zero
// Runtime, Spawn and Call fail with ErrClosed, and there is nothing to close.
type Runtime struct {
	opts       Options
	log        *slog.Logger
	c          *cRuntime
	threads    uintptr // address of the array of threads
	threadSize uintptr
	guardKind  uintptr // address of the kind of guard in force
	openPoller func() (cPoller, error)

	state     atomic.Uint32
	callers   atomic.Int64  // of Spawn and Call, that may still touch what Close frees: see start
	spawned   atomic.Uint64 // from Go
	completed atomic.Uint64 // of those
	unstarted atomic.Uint64 // of those, without a thread: see endCanceled
	ending    atomic.Int64  // cancelled in Go, and not completed
	wakes     atomic.Uint64 // sent by Go
	rounds    atomic.Uint64 // of the watchdog
	records   records
	ids       ids
	blocked   int // threads that block; the watchdog's

	looks looks

	notifyR *os.File // the core writes when there is something to do
	notifyW int

	growMu       sync.Mutex
	growFailed   time.Time      // when a thread could not be started; under growMu
	workers      sync.WaitGroup // the threads
	helpers      sync.WaitGroup // control and watchdog
	watchdogWake chan struct{}
	stopping     chan struct{}
	drained      chan struct{} // closed when no fiber is left and none can come
	drainOnce    sync.Once
	reapOnce     sync.Once
	closed       chan struct{} // closed when all is gone

	statsMu sync.Mutex // held by readers of the core's memory, and while it goes
	final   Stats
}

func (o *Options) fill() error {
	for _, option := range []struct {
		name  string
		value int64
	}{
		{"Options.Threads", int64(o.Threads)}, {"Options.MaxThreads", int64(o.MaxThreads)}, {"Options.StackSize", int64(o.StackSize)},
		{"Options.MaxFibers", int64(o.MaxFibers)}, {"Options.CloseTimeout", int64(o.CloseTimeout)},
	} {
		if option.value < 0 {
			return fmt.Errorf("%s %d is negative", option.name, option.value)
		}
	}
	o.Threads = cmp.Or(o.Threads, min(runtime.GOMAXPROCS(0), maxThreads))
	o.MaxThreads = cmp.Or(o.MaxThreads, min(o.Threads+16, maxThreads))
	o.StackSize = cmp.Or(o.StackSize, 256<<10)
	o.MaxFibers = cmp.Or(o.MaxFibers, 1<<24)
	o.CloseTimeout = cmp.Or(o.CloseTimeout, 5*time.Second)
	switch {
	case o.MaxThreads > maxThreads:
		return fmt.Errorf("Options.MaxThreads %d is above %d", o.MaxThreads, maxThreads)
	case o.Threads > o.MaxThreads:
		return fmt.Errorf("Options.Threads %d is above MaxThreads %d", o.Threads, o.MaxThreads)
	case o.StackSize < stackMin || o.StackSize > stackMax:
		return fmt.Errorf("Options.StackSize %d is not within 16 KiB to 1 GiB", o.StackSize)
	case o.MaxFibers > 1<<24:
		return fmt.Errorf("Options.MaxFibers %d is above 2^24", o.MaxFibers)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return nil
}

// New opens a runtime and starts its first thread; others start as there is
// work for them. The errors are ErrInvalid, ErrNoMemory, ErrUnsupported, those of
// the system calls that make descriptors, and, in a program without cgo,
// ErrNoLibrary, ErrMismatch and ErrNoCgo.
func New(opts Options) (*Runtime, error) { return open(opts, pollerOpen) }

func open(opts Options, openPoller func() (cPoller, error)) (*Runtime, error) {
	if err := opts.fill(); err != nil {
		return nil, &Error{Op: "new", Err: both{ErrInvalid, err}}
	}
	layout, err := bridgeLoad("new", opts.Library)
	if err != nil {
		return nil, err
	}
	rt := &Runtime{
		opts: opts, log: opts.Logger, openPoller: openPoller,
		watchdogWake: make(chan struct{}, 1), stopping: make(chan struct{}),
		drained: make(chan struct{}), closed: make(chan struct{}),
	}
	if rt.notifyR, rt.notifyW, err = notifyOpen(); err != nil {
		return nil, &Error{Op: "new", Err: err}
	}
	rt.c, err = bridgeOpen(uint32(opts.MaxThreads), uint32(opts.Threads), uint32(opts.MaxFibers),
		opts.Migrate, uint64(opts.StackSize), rt.notifyW)
	if err != nil {
		notifyClose(rt.notifyR, rt.notifyW)
		return nil, wrapErrno("new", err)
	}
	rt.threads = uintptr(rt.c.threads)
	rt.threadSize = layout[layoutThread].size
	rt.guardKind = addressOf(rt.c) + layout[layoutGuardKind].offset
	rt.records.batch = recordBatch
	if opts.MaxFibers < 1<<16 {
		rt.records.batch = 1 // then the limit is exact
	}
	if err := rt.firstThread(); err != nil {
		bridgeClose(rt.c)
		notifyClose(rt.notifyR, rt.notifyW)
		return nil, &Error{Op: "new", Err: err}
	}
	rt.state.Store(stateOpen)
	rt.helpers.Add(2)
	go rt.control()
	go rt.watchdog()
	return rt, nil
}

// firstThread starts the first thread; unlike that of others, its failure is an error.
func (rt *Runtime) firstThread() error {
	var failure error
	open := rt.openPoller
	rt.openPoller = func() (cPoller, error) {
		p, err := open()
		failure = err
		return p, err
	}
	log := rt.log
	rt.log = slog.New(slog.DiscardHandler)
	rt.grow(nil)
	rt.openPoller, rt.log = open, log
	return failure
}

// ---- The end ------------------------------------------------------------------

// Shutdown closes the runtime gracefully: no fiber can be spawned from Go any
// more, those that are there run to their end, and may spawn others in C. It
// returns nil when all has ended and everything is freed. When ctx is done
// first, it cancels the fibers that are left and returns an error at once, which
// is ErrStillRunning and ctx's, and tells how many there were; the runtime
// frees itself when the last of them ends. Called from a fiber of the runtime
// it fails with ErrDeadlock.
func (rt *Runtime) Shutdown(ctx context.Context) error {
	if rt.state.Load() == stateUnopened {
		return nil
	}
	if rt.insideFiber() {
		return &Error{Op: "shutdown", Err: ErrDeadlock, Hint: "call it from a goroutine of its own"}
	}
	rt.drain()
	select {
	case <-rt.closed:
		return nil
	default:
	}
	select {
	case <-rt.closed:
		return nil
	case <-ctx.Done():
	}
	left := rt.cancelAll()
	select {
	case <-rt.closed:
		return nil
	default:
	}
	return &Error{Op: "shutdown", Err: both{stillRunning(left), causeOf(ctx)},
		Hint: "they have been canceled"}
}

// Close closes the runtime: it cancels all fibers, waits up to
// Options.CloseTimeout until they have ended, and frees everything. If some do
// not end in time, it returns an error that is ErrStillRunning and tells how
// many; the runtime frees itself when the last of them ends. Closing twice is no
// error. Called from a fiber of the runtime it fails with ErrDeadlock.
func (rt *Runtime) Close() error {
	if rt.state.Load() == stateUnopened {
		return nil
	}
	if rt.insideFiber() {
		return &Error{Op: "close", Err: ErrDeadlock, Hint: "call it from a goroutine of its own"}
	}
	rt.drain()
	left := rt.cancelAll()
	timer := time.NewTimer(rt.opts.CloseTimeout)
	defer timer.Stop()
	select {
	case <-rt.closed:
		return nil
	case <-timer.C:
	}
	select { // of two that have happened, select takes any
	case <-rt.closed:
		return nil
	default:
		return &Error{Op: "close", Err: stillRunning(left),
			Hint: "C code that ignores ECANCELED, or blocks its thread, does not end"}
	}
}

type stillRunning uint64

func (n stillRunning) Error() string {
	return fmt.Sprintf("%v (%d of them)", ErrStillRunning, uint64(n))
}
func (n stillRunning) Is(target error) bool { return target == ErrStillRunning }

// insideFiber reports whether the caller has been called from a fiber of rt.
func (rt *Runtime) insideFiber() bool {
	c := bridgeCurrent()
	return c != nil && rt.state.Load() != stateClosed && uintptr(c.runtime) == addressOf(rt.c)
}

// drain lets no more fibers in and starts the reaper.
func (rt *Runtime) drain() {
	rt.reapOnce.Do(func() {
		announce(&rt.state, stateDraining)
		chaosDelay("DRAINING")
		// From now on each thread that falls idle tells; see checkDrained.
		announce(&rt.c.draining, 1)
		rt.wakeAll()
		go rt.reap() // not before: it frees what has just been used
		rt.checkDrained()
	})
}

// checkDrained closes rt.drained if no fiber is left and none can come.
func (rt *Runtime) checkDrained() {
	if rt.state.Load() == stateOpen {
		return
	}
	rt.statsMu.Lock()
	defer rt.statsMu.Unlock()
	// Callers first: what they have spawned is counted when they have left, and no others come.
	if rt.state.Load() != stateClosed && rt.callers.Load() == 0 && rt.live() == 0 &&
		rt.completed.Load() == rt.spawned.Load() {
		rt.drainOnce.Do(func() { close(rt.drained) })
	}
}

// live counts the fibers that are alive; it errs towards too many.
func (rt *Runtime) live() uint64 {
	unstarted := rt.unstarted.Load()
	balance := bridgeBalance(rt.c)
	return uint64(int64(rt.spawned.Load()-unstarted) + balance)
}

// cancelAll cancels every fiber and returns how many there were.
func (rt *Runtime) cancelAll() uint64 {
	rt.statsMu.Lock()
	defer rt.statsMu.Unlock()
	if rt.state.Load() == stateClosed {
		return 0
	}
	announce(&rt.c.closing, 1)
	chaosDelay("CLOSING")
	n := rt.live()
	rt.markCanceled()
	bridgeCancelAll(rt.c)
	return n
}

// markCanceled tells the handles that their fibers are cancelled.
func (rt *Runtime) markCanceled() {
	r := &rt.records
	r.handles.RLock()
	defer r.handles.RUnlock()
	for _, slab := range r.slabs {
		for i := range slab {
			if f := slab[i].Load(); f != nil {
				chaosDelay("MARK")
				f.cancelFor(rt)
			}
		}
	}
}

// reap frees everything once the last fiber has ended.
func (rt *Runtime) reap() {
	<-rt.drained
	rt.stopThreads()
	close(rt.stopping)
	rt.notifyR.Close() // not before: the threads write there
	rt.helpers.Wait()
	rt.statsMu.Lock()
	rt.final = rt.stats()
	rt.final.Threads = 0
	rt.state.Store(stateClosed)
	c := rt.c
	rt.statsMu.Unlock()
	bridgeClose(c)
	notifyClose(rt.notifyR, rt.notifyW)
	close(rt.closed)
}
