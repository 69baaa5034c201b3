package cfiber

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// An Attr sets what is particular to one fiber.
type Attr struct {
	// Name appears in messages. At most 31 bytes are kept.
	Name string
	// StackSize is the usable stack in bytes, 16 KiB to 1 GiB, rounded up to a
	// power of two; 0 is Options.StackSize.
	StackSize int
	// Migratable lets the fiber resume on another thread after each wait. Its C
	// code, and what it calls, must not keep thread-local state over one.
	Migratable bool
	// KeepFP gives the fiber floating-point control words (rounding mode,
	// exception masks) of its own.
	KeepFP bool
}

// A Fiber is a C function running, or done, on a fiber. Its methods may be
// called from any goroutine, also after the runtime has been closed.
type Fiber struct {
	rt   *Runtime
	id   uint64
	name string
	done chan struct{} // closed at the end; or, of Call, sent to

	pinner runtime.Pinner
	reused bool      // belongs to Call, which takes it back
	began  time.Time // of a call that is measured; see look.go

	mu       sync.Mutex
	c        *cFiber // nil once it has ended
	canceled bool    // by somebody, while it ran
	result   int
	err      error
}

// Spawn starts the C function fn on a fiber and returns at once. fn is a C
// pointer to a function of type intptr_t (void *); arg is passed to it. arg may
// be nil, C memory, or Go memory, which is pinned until the fiber has ended and
// must follow cgo's rules for what it may contain. At most one Attr is given.
//
// The errors are ErrInvalid, ErrClosed, ErrTooManyFibers and ErrNoMemory. A
// fiber that can be made but finds no memory for its stack when it first runs
// ends with ErrNoMemory.
func (rt *Runtime) Spawn(fn, arg unsafe.Pointer, attr ...Attr) (*Fiber, error) {
	f := &Fiber{done: make(chan struct{})}
	if err := rt.start("spawn", f, fn, arg, attr); err != nil {
		return nil, err
	}
	rt.leave()
	return f, nil
}

// The handles of calls are used again and again: their channels are never closed.
var callPool = sync.Pool{New: func() any {
	return &Fiber{done: make(chan struct{}, 1), reused: true}
}}

// Call runs the C function fn on a fiber and returns what it returned, once it
// has ended. It blocks the goroutine, not a thread; in a Go function called from a fiber it blocks
// that fiber's thread, and another stands in (Options.MaxThreads). See Spawn for fn, arg, attr and
// errors, and Wait for what ctx does. A ctx that is done at once means ErrNotStarted too.
func (rt *Runtime) Call(ctx context.Context, fn, arg unsafe.Pointer, attr ...Attr) (int, error) {
	if ctx.Err() != nil {
		e := &Error{Op: "call", Err: both{both{ErrCanceled, causeOf(ctx)}, ErrNotStarted}}
		if len(attr) > 0 {
			e.Name = attr[0].Name
		}
		return 0, e
	}
	f := callPool.Get().(*Fiber)
	if err := rt.start("call", f, fn, arg, attr); err != nil {
		callPool.Put(f)
		return 0, err
	}
	if rt.looks.pay() {
		rt.look(f)
	} else {
		rt.leave()
		f.sampleCall()
	}
	result, err := f.await(ctx, "call")
	f.measureCall()
	f.rt, f.result, f.err, f.canceled = nil, 0, nil, false
	callPool.Put(f)
	return result, err
}

// Wait waits until the fiber has ended and returns what its function returned.
//
// When ctx is done first, the fiber is cancelled: its waiting calls, the current
// one included, fail with ECANCELED in C. Wait goes on waiting until the
// function has returned, and then returns its result together with an error
// that is both ErrCanceled and ctx's (errors.Is). The same error comes, less
// ctx's part, if Cancel or Close cancelled the fiber while it ran. A fiber that
// has ended before is not cancelled: its result comes without error.
//
// A cancelled fiber whose function has not begun is run too, and may free what it was given; only if
// fibers block all threads that there may be, it ends without, with an error that is also ErrNotStarted.
//
// Wait may be called any number of times. Called from the fiber itself, by a Go
// function that the fiber's C code has called, it fails with ErrDeadlock.
func (f *Fiber) Wait(ctx context.Context) (int, error) {
	select {
	case <-f.done:
		return f.outcome("wait", nil)
	default:
	}
	if c := bridgeCurrent(); c != nil && c.id == f.id {
		return 0, &Error{Op: "wait", ID: f.id, Name: f.name, Err: ErrDeadlock,
			Hint: "wait in another goroutine"}
	}
	return f.await(ctx, "wait")
}

func (f *Fiber) await(ctx context.Context, op string) (int, error) {
	done := ctx.Done()
	if done == nil {
		<-f.done
		return f.outcome(op, nil)
	}
	select {
	case <-f.done:
		return f.outcome(op, nil)
	case <-done:
	}
	var cause error
	if f.cancel() {
		cause = causeOf(ctx)
	}
	<-f.done
	return f.outcome(op, cause)
}

// causeOf is ctx's error, and its cause if that is another.
func causeOf(ctx context.Context) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, ctx.Err()) {
		cause = both{ctx.Err(), cause}
	}
	return cause
}

// outcome is the result of an ended fiber.
func (f *Fiber) outcome(op string, cause error) (int, error) {
	raceEnd()
	canceled := ErrCanceled
	if cause != nil {
		canceled = both{ErrCanceled, cause}
	}
	err, hint := f.err, ""
	switch {
	case err == ErrNotStarted:
		err = both{canceled, err}
		hint = "fibers block all threads; raise Options.MaxThreads"
	case err != nil:
	case cause != nil || f.canceled:
		err = canceled
	default:
		return f.result, nil
	}
	return f.result, &Error{Op: op, ID: f.id, Name: f.name, Err: err, Hint: hint}
}

// Cancel asks the fiber to end: its current waiting call in C, and each later
// one, fails with ECANCELED. It does not wait. Cancelling twice, or a fiber that
// has ended, does nothing.
func (f *Fiber) Cancel() { f.cancel() }

// cancel reports whether the fiber was still there to be cancelled.
func (f *Fiber) cancel() bool { return f.cancelFor(f.rt) }

// cancelFor is cancel, on behalf of a runtime that has had the fiber. If it was a call's, the handle
// may belong to a call of another runtime by now.
func (f *Fiber) cancelFor(rt *Runtime) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.c == nil || f.rt != rt {
		return false
	}
	// An end that has not been told of is one, too: its result is there.
	if !rt.cancelFiber(f.c) {
		return false
	}
	if !f.canceled {
		f.canceled = true
		rt.ending.Add(1)
	}
	return true
}

// Done returns a channel that is closed when the fiber has ended.
func (f *Fiber) Done() <-chan struct{} { return f.done }

// ID returns a number that no other fiber of the process has had.
func (f *Fiber) ID() uint64 { return f.id }

// Name returns the name given to Spawn.
func (f *Fiber) Name() string { return f.name }

// ---- Starting ------------------------------------------------------------------

func checkAttr(attr []Attr) (a Attr, err error) {
	if len(attr) > 1 {
		return a, errors.New("more than one Attr")
	}
	if len(attr) == 1 {
		a = attr[0]
	}
	if a.StackSize != 0 && (a.StackSize < stackMin || a.StackSize > stackMax) {
		return a, errors.New("Attr.StackSize " + strconv.Itoa(a.StackSize) + " is not within 16 KiB to 1 GiB")
	}
	return a, nil
}

// start starts f. If it does, the runtime is not freed until the caller leaves: the fiber may
// end, and be the last, while the caller is still waking the thread that it was handed to.
func (rt *Runtime) start(op string, f *Fiber, fn, arg unsafe.Pointer, attr []Attr) error {
	a, err := checkAttr(attr)
	if fn == nil {
		err = errors.New("the function is nil")
	}
	if err != nil {
		return &Error{Op: op, Name: a.Name, Err: both{ErrInvalid, err}}
	}
	if rt.state.Load() == stateUnopened {
		return &Error{Op: op, Name: a.Name, Err: ErrClosed, Hint: "a Runtime is made by New"}
	}
	// Counted before the state is looked at: whoever closes the runtime changes
	// the state before it looks at the count.
	rt.callers.Add(1)
	chaosDelay("COUNTED")
	if rt.state.Load() != stateOpen {
		rt.leave()
		return &Error{Op: op, Name: a.Name, Err: ErrClosed}
	}
	c, err := rt.takeRecord()
	if err != nil {
		rt.leave()
		err := wrapErrno(op, err)
		if e, ok := err.(*Error); ok {
			e.Name = a.Name
		}
		return err
	}
	rt.spawned.Add(1)
	id := rt.fillRecord(c, fn, arg, &a)
	if arg != nil {
		f.pinner.Pin(arg)
	}
	f.mu.Lock() // for who still has the handle of an earlier call; see cancelFor
	f.rt, f.name, f.id, f.c = rt, a.Name, id, c
	f.mu.Unlock()
	// Whoever closes the runtime sets `closing`, then cancels those that have a handle; see
	// announce.
	rt.handle(c.index).Swap(f)
	chaosDelay("SPAWN")
	raceSpawn()
	if rt.c.closing.Load() != 0 {
		f.cancel()
	}
	rt.schedule(c, c)
	return nil
}

// leave is for who has called start, and will not touch what Close frees any more.
func (rt *Runtime) leave() {
	rt.callers.Add(-1)
	rt.checkDrained()
}

// fillRecord makes a record ready to be scheduled; see init_record in
// csrc/fiber.c. It returns the fiber's id.
func (rt *Runtime) fillRecord(c *cFiber, fn, arg unsafe.Pointer, a *Attr) uint64 {
	flags := uint32(flagGo)
	if a.Migratable || rt.opts.Migrate {
		flags |= flagMigratable
	}
	if a.KeepFP {
		flags |= flagKeepFP
	}
	c.flags = flags
	c.error = 0
	c.thread = nil
	c.stack = nil
	c.fn = fn
	c.arg = uintptr(arg)
	c.id = rt.ids.next()
	c.stackSize = uintptr(a.StackSize)
	c.deadline = 0
	c.shield = 0
	c.queued = 0
	c.joiner = joinerDetached // C cannot join it: it is collected by complete
	n := copy(c.name[:nameMax-1], a.Name)
	c.name[n] = 0
	c.wait.Store(c.wait.Load()>>waitEpochShift<<waitEpochShift | waitLive)
	return c.id
}

// complete ends the handle of an ended fiber and frees its record.
func (rt *Runtime) complete(c *cFiber) {
	f := rt.handle(c.index).Swap(nil)
	chaosDelay("FINISHING")
	f.mu.Lock()
	f.c = nil
	f.result = c.result
	if c.error != 0 {
		f.result = 0
		f.err = notStarted(syscall.Errno(c.error))
	}
	if f.canceled {
		rt.ending.Add(-1)
	}
	f.mu.Unlock()
	f.pinner.Unpin()
	rt.giveRecord(c)
	chaosDelay("FINISHED")
	if f.reused {
		f.done <- struct{}{}
	} else {
		close(f.done)
	}
	rt.completed.Add(1)
}

// notStarted is the error of a fiber whose function has not been called.
func notStarted(e syscall.Errno) error {
	if e == syscall.ECANCELED {
		return ErrNotStarted
	}
	return both{ErrNoMemory, e}
}

// endCanceled ends the fibers that have been cancelled and have not begun, for when no thread is left
// to begin them. Others may be waiting for them on the very threads that are missing.
func (rt *Runtime) endCanceled() {
	for c := bridgeTakeCanceled(rt.c); c != nil; {
		next := pointerTo[cFiber](c.next)
		c.error = int32(syscall.ECANCELED)
		// As at the end of others (release in csrc/fiber.c): a cancel may come too late.
		c.wait.Store(c.wait.Load() &^ (waitLive | waitState))
		rt.unstarted.Add(1)
		rt.complete(c)
		c = next
	}
	rt.checkDrained()
}

// fiberName is the name in a record.
func fiberName(c *cFiber) string {
	n := 0
	for n < nameMax && c.name[n] != 0 {
		n++
	}
	return string(c.name[:n])
}

// entryName describes the entry function of a fiber.
func entryName(pc uintptr) string {
	address := "0x" + strconv.FormatUint(uint64(pc), 16)
	if name := bridgeSymbol(pc); name != "" {
		return name + " at " + address
	}
	return address
}
