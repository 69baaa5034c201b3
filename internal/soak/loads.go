//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/cfiber/cfiber"
	"github.com/cfiber/cfiber/internal/ctest"
	"golang.org/x/sys/unix"
)

// A load is one thing that is done over and over, by some goroutines at once.
type load struct {
	name    string
	workers int
	once    func(s *soak, rng *rand.Rand) error
	done    atomic.Int64
}

func (s *soak) allLoads() []*load {
	return []*load{
		{name: "calls cancelled by a context", workers: 8, once: cancelledCall},
		{name: "fibers cancelled by Cancel", workers: 4, once: cancelledFibers},
		{name: "trees spawned in C", workers: 2, once: tree},
		{name: "callbacks into Go", workers: 4, once: callbacks},
		{name: "collections", workers: 1, once: collection},
		{name: "sockets closed under readers", workers: 3, once: closedSocket},
		{name: "TCP connections", workers: 2, once: connection},
		{name: "batches of timers", workers: 2, once: timers},
		{name: "deep stacks", workers: 2, once: deepStacks},
		{name: "runtimes", workers: 1, once: secondRuntime},
	}
}

func newRandom(seed uint64, load, worker int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(load)<<8|uint64(worker)))
}

func (l *load) loop(ctx context.Context, s *soak, rng *rand.Rand) {
	for ctx.Err() == nil && s.failed.few() {
		if err := l.once(s, rng); err != nil {
			s.failed.add("%s: %v", l.name, err)
		}
		l.done.Add(1)
	}
}

// call and spawn run the C function fn with a number.
func call(rt *cfiber.Runtime, fn unsafe.Pointer, n int) (int, error) {
	fn, arg := ctest.WithNumber(fn, n)
	return rt.Call(context.Background(), fn, arg)
}

func (s *soak) spawn(fn unsafe.Pointer, n int, attr ...cfiber.Attr) (*cfiber.Fiber, error) {
	fn, arg := ctest.WithNumber(fn, n)
	return s.rt.Spawn(fn, arg, attr...)
}

// canceled is what C functions return whose wait has been cancelled.
const canceled = -int(syscall.ECANCELED)

func wrong(what string, n int, err error) error { return fmt.Errorf("%s: %d, %v", what, n, err) }

func cancelledCall(s *soak, rng *rand.Rand) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rng.IntN(2000))*time.Microsecond)
	defer cancel()
	n, err := s.rt.Call(ctx, ctest.ParkForever, nil, cfiber.Attr{Migratable: rng.IntN(2) == 0})
	if !errors.Is(err, cfiber.ErrCanceled) || n != canceled && n != 0 {
		return wrong("call", n, err)
	}
	return nil
}

func cancelledFibers(s *soak, rng *rand.Rand) error {
	var fibers []*cfiber.Fiber
	for range 1 + rng.IntN(50) {
		f, err := s.rt.Spawn(ctest.ParkForever, nil, cfiber.Attr{Migratable: rng.IntN(2) == 0})
		if err != nil {
			return err
		}
		fibers = append(fibers, f)
	}
	rng.Shuffle(len(fibers), func(i, k int) { fibers[i], fibers[k] = fibers[k], fibers[i] })
	for _, f := range fibers {
		f.Cancel()
	}
	for _, f := range fibers {
		if n, err := f.Wait(context.Background()); n != canceled || !errors.Is(err, cfiber.ErrCanceled) {
			return wrong("wait", n, err)
		}
	}
	return nil
}

func tree(s *soak, rng *rand.Rand) error {
	n := 5 + rng.IntN(10)
	a, b := 0, 1
	for range n {
		a, b = b, a+b
	}
	got, err := call(s.rt, ctest.Fib, n)
	if err != nil || got != a {
		return wrong("tree", got, err)
	}
	return nil
}

// callback makes garbage, and now and then lets others run.
func callback(arg uintptr) uintptr {
	garbage := make([]*int, 100)
	for i := range garbage {
		garbage[i] = new(int)
	}
	if arg%8 == 0 {
		runtime.Gosched()
	}
	return arg + uintptr(len(garbage))
}

func callbacks(s *soak, rng *rand.Rand) error {
	n, fn := rng.IntN(1000), ctest.CallGo
	if n%4 == 0 {
		fn = ctest.CallGoDeep
	}
	got, err := call(s.rt, fn, n)
	if err != nil || got != n+100 {
		return wrong("callback", got, err)
	}
	return nil
}

func collection(*soak, *rand.Rand) error {
	runtime.GC()
	time.Sleep(20 * time.Millisecond) // at full speed nothing else would run
	return nil
}

// Descriptors that are closed under readers have numbers that are not used again soon: a
// reader that comes late must not find the number's next owner.
var nextNumber atomic.Int32

func onceUsed(fd int) (int, error) {
	defer unix.Close(fd)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return -1, err
	}
	// The upper half of the numbers, or some of it.
	first := min(int(min(limit.Cur, 1<<20))/2, 1024)
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, first+int(nextNumber.Add(1))%min(first, 4096))
}

func closedSocket(s *soak, rng *rand.Rand) error {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(p[1])
	fd, err := onceUsed(p[0])
	if err != nil {
		return err
	}
	var fibers []*cfiber.Fiber
	for range 1 + rng.IntN(8) {
		f, err := s.spawn(ctest.ReadFD, fd)
		if err != nil {
			return err
		}
		fibers = append(fibers, f)
	}
	sent := rng.IntN(len(fibers) + 1)
	for range sent {
		unix.Write(p[1], []byte{7})
		runtime.Gosched()
	}
	if n, err := call(s.rt, ctest.CloseFD, fd); n != 0 || err != nil {
		return wrong("close", n, err)
	}
	bytes := 0
	for _, f := range fibers {
		switch n, err := f.Wait(context.Background()); {
		case err == nil && n == 7:
			bytes++
		case err != nil || n != -int(syscall.EBADF):
			return wrong("read", n, err)
		}
	}
	if bytes > sent {
		return fmt.Errorf("%d bytes read of %d", bytes, sent)
	}
	return nil
}

// connection has a fiber read from a TCP connection until its other end is closed.
func connection(s *soak, rng *rand.Rand) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		return err
	}
	f, err := server.(*net.TCPConn).File() // a number of its own, for the fibers
	server.Close()
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range 1 + rng.IntN(10) {
		fiber, err := s.spawn(ctest.ReadFD, int(f.Fd()))
		if err != nil {
			return err
		}
		if _, err := client.Write([]byte{byte(i)}); err != nil {
			return err
		}
		if n, err := fiber.Wait(context.Background()); n != i || err != nil {
			return wrong("read", n, err)
		}
	}
	fiber, err := s.spawn(ctest.ReadFD, int(f.Fd()))
	if err != nil {
		return err
	}
	client.(*net.TCPConn).SetLinger(0) // else the port is kept for a minute
	client.(*net.TCPConn).CloseWrite()
	if n, err := fiber.Wait(context.Background()); n != 1000 || err != nil {
		return wrong("read at the end", n, err)
	}
	return nil
}

func timers(s *soak, rng *rand.Rand) error {
	var fibers []*cfiber.Fiber
	for range 100 {
		f, err := s.spawn(ctest.SleepNS, rng.IntN(5_000_000))
		if err != nil {
			return err
		}
		fibers = append(fibers, f)
	}
	for _, f := range fibers {
		if n, err := f.Wait(context.Background()); n != 0 || err != nil {
			return wrong("sleep", n, err)
		}
	}
	return nil
}

func deepStacks(s *soak, rng *rand.Rand) error {
	var fibers []*cfiber.Fiber
	attr := cfiber.Attr{StackSize: 256 << 10 << rng.IntN(3)}
	for range 1 + rng.IntN(20) {
		f, err := s.spawn(ctest.RecurseAndSleep, 300, attr)
		if err != nil {
			return err
		}
		fibers = append(fibers, f)
	}
	for _, f := range fibers {
		if n, err := f.Wait(context.Background()); n != 0 || err != nil {
			return wrong("deep", n, err)
		}
	}
	return nil
}

// secondRuntime opens one more, and closes it with fibers parked and about to run.
func secondRuntime(s *soak, rng *rand.Rand) error {
	rt, err := cfiber.New(cfiber.Options{Threads: 1 + rng.IntN(3), CloseTimeout: restLimit})
	if err != nil {
		return err
	}
	var fibers []*cfiber.Fiber
	for range rng.IntN(20) {
		f, err := rt.Spawn(ctest.ParkForever, nil)
		if err != nil {
			return err
		}
		fibers = append(fibers, f)
	}
	if n, err := call(rt, ctest.Fib, 5); n != 5 || err != nil {
		return wrong("tree", n, err)
	}
	if err := rt.Close(); err != nil {
		return err
	}
	for _, f := range fibers {
		if n, err := f.Wait(context.Background()); n != canceled || !errors.Is(err, cfiber.ErrCanceled) {
			return wrong("wait", n, err)
		}
	}
	return nil
}
