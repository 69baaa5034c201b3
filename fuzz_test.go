//go:build cgo

package cfiber

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/cfiber/cfiber/internal/ctest"
	"golang.org/x/sys/unix"
)

// Any bytes are a program of what Go can do with fibers; go test -fuzz makes a program that
// fails shorter. What each fiber must return is known, so the program is its own reference.
// Its C counterpart, csrc/testdata/random_test.c, is about what fibers do among each other.

// A programmed is a fiber of a program and what may come of it.
type programmed struct {
	f       *Fiber
	what    string
	result  func(int) bool
	forever bool // it only ends if it is cancelled
	asked   bool // to end
}

// A fuzzProgram runs while there are bytes.
type fuzzProgram struct {
	t      testing.TB
	bytes  []byte
	rt     *Runtime
	fibers []*programmed
	spare  *Runtime
	fds    []int
	closed bool
	calls  sync.WaitGroup
}

func (p *fuzzProgram) next() byte {
	if len(p.bytes) == 0 {
		return 0
	}
	b := p.bytes[0]
	p.bytes = p.bytes[1:]
	return b
}

// options takes some within their bounds.
func (p *fuzzProgram) options() Options {
	b := p.next()
	return Options{
		Threads:      1 + int(b&3),
		Migrate:      b&4 != 0,
		MaxFibers:    []int{0, 0, 70_000, 20}[b>>3&3],
		StackSize:    []int{0, 16 << 10, 64 << 10, 1 << 20}[b>>5&3],
		CloseTimeout: time.Minute,
		Logger:       slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

func (p *fuzzProgram) attr() Attr {
	b := p.next()
	return Attr{
		Name:       strings.Repeat("n", int(b>>2)),
		Migratable: b&1 != 0,
		KeepFP:     b&2 != 0,
		StackSize:  []int{0, 16 << 10, 100_000, 1 << 20}[b>>6],
	}
}

func isOne(want ...int) func(int) bool {
	return func(n int) bool {
		for _, w := range want {
			if n == w {
				return true
			}
		}
		return false
	}
}

// body is a C function, its argument, and what it may return. Waits that are cancelled return canceled.
func (p *fuzzProgram) body() (what string, fn, arg unsafe.Pointer, result func(int) bool, forever bool) {
	what, fn, n, result, forever := p.function()
	if what == "sleep on Go memory" {
		return what, fn, unsafe.Pointer(&[2]int64{int64(n) * 1000}), result, forever
	}
	fn, arg = ctest.WithNumber(fn, n)
	return what, fn, arg, result, forever
}

func (p *fuzzProgram) function() (what string, fn unsafe.Pointer, n int, result func(int) bool, forever bool) {
	n = int(p.next())
	switch kind := p.next() % 11; kind {
	case 0:
		return "return", ctest.Return, n, isOne(n), false
	case 1:
		return "sleep", ctest.SleepNS, n * 1000, isOne(0, canceled), false
	case 2:
		return "park", ctest.ParkForever, 0, isOne(canceled), true
	case 3:
		return "yield", ctest.YieldLoop, n, isOne(0), false
	case 4:
		// Spawns in C, which fails while the runtime is being closed, as does a join.
		fibs := []int{0, 1, 1, 2, 3, 5, 8, 13, 21}
		return "fib", ctest.Fib, n % 9, func(r int) bool { return r == fibs[n%9] || r < 0 }, false
	case 5:
		return "errno", ctest.Errno, n, func(r int) bool { return r == n || r < 0 }, false
	case 6:
		return "call Go", ctest.CallGo, n, isOne(n + 1), false
	case 7:
		return "recurse", ctest.Recurse, n % 16, isOne(n % 16), false
	case 8:
		return "sleep on Go memory", ctest.SleepArray, n, isOne(0, canceled), false
	case 9:
		fd := p.idleFD(n)
		if fd < 0 {
			return "return", ctest.Return, n, isOne(n), false
		}
		return "read", ctest.ReadFD, fd, isOne(canceled), true
	default:
		return "moves", ctest.CountMoves, 0, func(r int) bool { return r >= -1 }, false
	}
}

// idleFD is a descriptor that nothing ever comes from.
func (p *fuzzProgram) idleFD(n int) int {
	if len(p.fds) < 8 {
		r, w := pipe(p.t)
		p.fds = append(p.fds, r, w)
	}
	return p.fds[n%(len(p.fds)/2)*2]
}

// mayFail tells whether a spawn may fail so.
func (p *fuzzProgram) mayFail(err error) bool {
	return errors.Is(err, ErrTooManyFibers) && p.rt.opts.MaxFibers == 20 || errors.Is(err, ErrClosed) && p.closed
}

func (p *fuzzProgram) spawn() {
	what, fn, arg, result, forever := p.body()
	f, err := p.rt.Spawn(fn, arg, p.attr())
	if err != nil {
		if !p.mayFail(err) {
			p.t.Errorf("spawn %s: %v", what, err)
		}
		return
	}
	p.fibers = append(p.fibers, &programmed{f: f, what: what, result: result, forever: forever})
}

// call is like spawn in a goroutine of its own, cancelled by its context where that is needed.
func (p *fuzzProgram) call() {
	what, fn, arg, result, forever := p.body()
	attr := p.attr()
	ctx, cancel := context.WithCancel(context.Background())
	if limit := p.next(); forever || limit&1 != 0 {
		cancel()
		ctx, cancel = context.WithTimeout(context.Background(), time.Duration(limit)*10*time.Microsecond)
	}
	rt := p.rt
	p.calls.Go(func() {
		defer cancel()
		n, err := rt.Call(ctx, fn, arg, attr)
		switch {
		case errors.Is(err, ErrTooManyFibers), errors.Is(err, ErrClosed):
		case errors.Is(err, ErrCanceled) && n == 0 && ctx.Err() != nil: // before it began
		case err != nil && !errors.Is(err, ErrCanceled):
			p.t.Errorf("call of %s: %v", what, err)
		case !result(n):
			p.t.Errorf("call of %s returned %d", what, n)
		}
	})
}

// one of the fibers; nil if there are none.
func (p *fuzzProgram) one() *programmed {
	if len(p.fibers) == 0 {
		return nil
	}
	return p.fibers[int(p.next())%len(p.fibers)]
}

func (p *fuzzProgram) cancel() {
	if f := p.one(); f != nil {
		f.asked = true
		f.f.Cancel()
	}
}

// wait with a context that ends it, unless it ends by itself.
func (p *fuzzProgram) wait() {
	f := p.one()
	if f == nil {
		return
	}
	ctx := context.Background()
	if b := p.next(); f.forever && !f.asked && !p.closed || b&1 != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(b)*4*time.Microsecond)
		defer cancel()
		f.asked = true
	}
	p.check(f, ctx)
}

func (p *fuzzProgram) check(f *programmed, ctx context.Context) {
	n, err := f.f.Wait(ctx)
	switch {
	case err != nil && !errors.Is(err, ErrCanceled):
		p.t.Errorf("%s: %v", f.what, err)
	case err != nil && !f.asked && !p.closed:
		p.t.Errorf("%s: canceled by nobody", f.what)
	case !f.result(n):
		p.t.Errorf("%s returned %d, %v", f.what, n, err)
	case n == canceled && err == nil && f.what != "return":
		p.t.Errorf("%s returned ECANCELED, of which Wait knows nothing", f.what)
	}
	if again, err2 := f.f.Wait(context.Background()); again != n || (err == nil) != (err2 == nil) {
		p.t.Errorf("%s: %d, %v, and then %d, %v", f.what, n, err, again, err2)
	}
	select {
	case <-f.f.Done():
	default:
		p.t.Errorf("%s: waited for, and not done", f.what)
	}
}

func (p *fuzzProgram) openOrCloseSpare() {
	if p.spare == nil {
		rt, err := New(p.options())
		if err != nil {
			p.t.Error(err)
			return
		}
		rt.Spawn(ctest.ParkForever, nil)
		p.spare = rt
		return
	}
	if err := p.spare.Close(); err != nil {
		p.t.Error(err)
	}
	p.spare = nil
}

// shutdown closes the runtime in the middle of everything.
func (p *fuzzProgram) shutdown() {
	p.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(p.next())*10*time.Microsecond)
	defer cancel()
	if err := p.rt.Shutdown(ctx); err != nil && !errors.Is(err, ErrStillRunning) {
		p.t.Error(err)
	}
}

func (p *fuzzProgram) step() {
	switch op := p.next() % 32; {
	case op < 12:
		p.spawn()
	case op < 16:
		p.call()
	case op < 20:
		p.cancel()
	case op < 25:
		p.wait()
	case op < 27:
		runtime.Gosched()
	case op < 28:
		if s := p.rt.Stats(); s.Finished > s.Spawned {
			p.t.Errorf("%+v", s)
		}
	case op < 29:
		runtime.GC()
	case op < 31:
		p.openOrCloseSpare()
	default:
		p.shutdown()
	}
}

// finish closes the runtime: then all has ended, once, and as it should.
func (p *fuzzProgram) finish() {
	p.closed = true
	if err := p.rt.Close(); err != nil {
		p.t.Error(err)
	}
	if p.spare != nil {
		p.openOrCloseSpare()
	}
	p.calls.Wait()
	for _, f := range p.fibers {
		p.check(f, context.Background())
	}
	if s := p.rt.Stats(); s.Live != 0 || s.Spawned != s.Finished || s.Threads != 0 {
		p.t.Errorf("%+v", s)
	}
	for _, fd := range p.fds {
		unix.Close(fd)
	}
}

func FuzzProgram(f *testing.F) {
	ctest.Callback = func(arg uintptr) uintptr { return arg + 1 }
	f.Add([]byte{})
	f.Add([]byte{1, 0, 0, 2, 0, 20, 0, 1, 16, 0})                      // a parked fiber, cancelled
	f.Add([]byte{7, 0, 5, 4, 0, 0, 200, 1, 1, 12, 9, 6, 0, 1, 31, 10}) // closed in the middle
	f.Add([]byte{24, 0, 0, 2, 0, 0, 0, 9, 0, 29, 1, 20, 0, 3, 29, 28, 0, 3, 8, 0, 20, 1, 2})
	f.Add([]byte(strings.Repeat("\x00\x09\x02\x01\x0d\x03\x09\x00\x40\x14\x01\x03\x10\x02", 12)))
	f.Fuzz(func(t *testing.T, program []byte) {
		fds := openFDs(t)
		hang := time.AfterFunc(time.Minute, func() { panic("the program does not end") })
		defer hang.Stop()
		p := &fuzzProgram{t: t, bytes: program[:min(len(program), 400)]}
		rt, err := New(p.options())
		if err != nil {
			t.Fatal(err)
		}
		p.rt = rt
		for len(p.bytes) > 0 && !t.Failed() {
			p.step()
		}
		p.finish()
		if n := openFDs(t); n > fds {
			t.Errorf("%d descriptors, %d before", n, fds)
		}
	})
}

// typed reports whether an error is one that the API promises.
func typed(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Op == "" {
		return false
	}
	for _, want := range []error{ErrInvalid, ErrClosed, ErrTooManyFibers, ErrNoMemory} {
		if errors.Is(err, want) {
			return true
		}
	}
	// Of the system calls that make descriptors.
	return errors.As(err, new(syscall.Errno))
}

// FuzzArguments: whatever the options and attributes are, what is opened works or an error says why
// not; nothing panics, and nothing is left.
func FuzzArguments(f *testing.F) {
	f.Add(0, 0, 0, 0, int64(0), false, "", 0, false, byte(0))
	f.Add(-1, 0, 0, 0, int64(0), true, "x", -1, true, byte(1))
	f.Add(2000, 5000, 1<<40, 1<<25, int64(-1), true, strings.Repeat("long", 100), 1<<50, false, byte(2))
	f.Add(1, 1, 16<<10, 1, int64(time.Second), false, "\x00", 16<<10, true, byte(3))
	f.Add(2, 3, 1<<30, 65535, int64(math.MaxInt64), true, "name", 1<<30, false, byte(4))
	f.Add(1024, 1024, 16385, 1<<24, int64(1), false, "name", 12345, false, byte(5))
	f.Fuzz(func(t *testing.T, threads, maxThreads, stack, maxFibers int, closeTimeout int64, migrate bool,
		name string, attrStack int, flags bool, way byte) {
		fds := openFDs(t)
		rt := new(Runtime) // of somebody who has forgotten New
		if way&1 == 0 {
			var err error
			rt, err = New(Options{Threads: threads, MaxThreads: maxThreads, StackSize: stack, MaxFibers: maxFibers,
				CloseTimeout: time.Duration(closeTimeout), Migrate: migrate, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				if rt != nil || !typed(err) {
					t.Errorf("%v, %v", rt, err)
				}
				return
			}
		}
		fn := ctest.SleepArray
		if way&2 != 0 {
			fn = nil
		}
		attr := []Attr{{Name: name, StackSize: attrStack, Migratable: flags, KeepFP: flags}}
		if way&4 != 0 {
			attr = append(attr, attr...)
		}
		if n, err := rt.Call(context.Background(), fn, unsafe.Pointer(new([2]int64)), attr...); err == nil && n != 0 || err != nil && !typed(err) {
			t.Errorf("call: %d, %v", n, err)
		}
		h, err := rt.Spawn(fn, unsafe.Pointer(new([2]int64)), attr...)
		if err != nil && (h != nil || !typed(err)) {
			t.Errorf("spawn: %v, %v", h, err)
		}
		rt.Shutdown(context.Background())
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
		if h != nil {
			if n, err := h.Wait(context.Background()); err == nil && n != 0 || err != nil && !typed(err) && !errors.Is(err, ErrCanceled) {
				t.Errorf("wait: %d, %v", n, err)
			}
		}
		if s := rt.Stats(); s.Live != 0 || s.Threads != 0 {
			t.Errorf("%+v", s)
		}
		if n := openFDs(t); n > fds {
			t.Errorf("%d descriptors, %d before", n, fds)
		}
	})
}
