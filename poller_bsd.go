//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package cfiber

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pollerOpen makes a kqueue with the wake event registered; see addWakeEvent.
// What it makes is what csrc/poller_kqueue.c makes for programs without Go.
func pollerOpen() (cPoller, error) {
	kq, err := unix.Kqueue()
	if err != nil {
		return cPoller{}, os.NewSyscallError("kqueue", err)
	}
	// Forked children do not have it anyway; this is for a direct exec.
	unix.CloseOnExec(kq)
	p := cPoller{fd: int32(kq), wakeFD: -1, wakeReadFD: -1}
	if err := addWakeEvent(&p); err != nil {
		pollerClose(p)
		return cPoller{}, err
	}
	return p, nil
}

func pollerClose(p cPoller) {
	for _, fd := range []int32{p.fd, p.wakeFD, p.wakeReadFD} {
		if fd >= 0 {
			unix.Close(int(fd))
		}
	}
}

// change applies one change to a kqueue.
func change(kq int32, k unix.Kevent_t) error {
	for {
		_, err := unix.Kevent(int(kq), []unix.Kevent_t{k}, nil, nil)
		if err != unix.EINTR {
			return os.NewSyscallError("kevent", err)
		}
	}
}

// openPipe makes a pipe, non-blocking at both ends. Not all systems have pipe2.
func openPipe() (r, w int, err error) {
	var p [2]int
	syscall.ForkLock.RLock()
	if err = unix.Pipe(p[:]); err == nil {
		unix.CloseOnExec(p[0])
		unix.CloseOnExec(p[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return -1, -1, os.NewSyscallError("pipe", err)
	}
	for _, fd := range p {
		if err := unix.SetNonblock(fd, true); err != nil {
			unix.Close(p[0])
			unix.Close(p[1])
			return -1, -1, os.NewSyscallError("fcntl", err)
		}
	}
	return p[0], p[1], nil
}

// notifyOpen makes the descriptors through which the core tells that there is
// something for Go to do: Go reads from one what the core writes to the other.
func notifyOpen() (r *os.File, w int, err error) {
	fd, w, err := openPipe()
	if err != nil {
		return nil, -1, err
	}
	return os.NewFile(uintptr(fd), "cfiber-notify"), w, nil
}

func notifyClose(r *os.File, w int) {
	r.Close()
	unix.Close(w)
}
