package generate

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
	"unsafe"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/subjects"
	"golang.org/x/sys/unix"
)

// conn is a connection with a message under way.
type conn struct {
	fd      int
	sent    time.Time
	got     int // bytes of the answer
	message [Size]byte
	answer  [Size]byte
	crunch  bool
}

// run is one thread around epoll, without Go's scheduler in between: it must not be what limits
// the server.
func (l *load) run() (time.Duration, error) {
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return 0, err
	}
	conns := make([]conn, l.conns)
	for i := range conns {
		if err := l.connect(epoll, conns, i); err != nil {
			return 0, fmt.Errorf("connection %d of %d: %w", i+1, l.conns, err)
		}
	}
	for i := range conns {
		if err := conns[i].send(time.Now()); err != nil {
			return 0, err
		}
	}
	begin := time.Now().Add(l.warm)
	if err := l.until(epoll, conns, begin, false); err != nil {
		return 0, err
	}
	fmt.Fprintln(l.out, "BEGIN")
	before := subjects.CPUTime()
	if err := l.until(epoll, conns, time.Now().Add(l.duration), true); err != nil {
		return 0, err
	}
	used := subjects.CPUTime() - before
	fmt.Fprintln(l.out, "END")
	return used, nil
}

func (l *load) connect(epoll int, conns []conn, i int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	address := &unix.SockaddrInet4{Port: l.port, Addr: [4]byte{127, 0, 0, 1}}
	if err := unix.Connect(fd, address); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	conns[i] = conn{fd: fd, message: l.message(i), crunch: l.crunches(i)}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}
	return unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &event)
}

// until answers answers until the time end.
func (l *load) until(epoll int, conns []conn, end time.Time, measured bool) error {
	var events [256]unix.EpollEvent
	for {
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		n, err := unix.EpollWait(epoll, events[:], int(left.Milliseconds())+1)
		if err != nil && err != unix.EINTR {
			return err
		}
		for _, event := range events[:max(n, 0)] {
			c := &conns[event.Fd]
			complete, err := c.receive()
			if err != nil {
				return fmt.Errorf("connection %d: %w", event.Fd+1, err)
			}
			if !complete {
				continue
			}
			now := time.Now()
			if measured {
				l.requests++
				if !c.crunch {
					l.latency.Add(now.Sub(c.sent), 1)
				}
			}
			if err := c.send(now); err != nil {
				return err
			}
		}
	}
}

// The calls below never block, so Go's scheduler need not hear of them.

func (c *conn) send(now time.Time) error {
	c.sent, c.got = now, 0
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(c.fd), uintptr(unsafe.Pointer(&c.message)), Size)
	if errno != 0 {
		return errno
	}
	if n != Size {
		return fmt.Errorf("only %d bytes could be sent", n)
	}
	return nil
}

// receive takes what has come, and reports whether that completes the answer.
func (c *conn) receive() (bool, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(c.fd), uintptr(unsafe.Pointer(&c.answer[c.got])), uintptr(Size-c.got))
	if errno == unix.EAGAIN || errno == unix.EINTR {
		return false, nil
	}
	if errno != 0 {
		return false, errno
	}
	if n == 0 {
		return false, fmt.Errorf("the server closed it")
	}
	c.got += int(n)
	if c.got < Size {
		return false, nil
	}
	if !bytes.Equal(c.answer[:], c.message[:]) {
		return false, fmt.Errorf("sent %q and got %q", c.message, c.answer)
	}
	return true, nil
}
