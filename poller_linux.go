package cfiber

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// wakeIdent is what the wake event carries in place of a descriptor and a
// generation; see csrc/poller_epoll.c.
const wakeIdent = -1

// pollerOpen makes an epoll with an eventfd registered, edge triggered: each
// write is an event, and nobody needs to read.
func pollerOpen() (cPoller, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return cPoller{}, os.NewSyscallError("epoll_create1", err)
	}
	efd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(ep)
		return cPoller{}, os.NewSyscallError("eventfd", err)
	}
	p := cPoller{fd: int32(ep), wakeFD: int32(efd), wakeReadFD: -1}
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: wakeIdent, Pad: wakeIdent}
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, efd, &event); err != nil {
		pollerClose(p)
		return cPoller{}, os.NewSyscallError("epoll_ctl", err)
	}
	return p, nil
}

func pollerClose(p cPoller) {
	unix.Close(int(p.fd))
	unix.Close(int(p.wakeFD))
}

// What is written to an eventfd: one, as the machine has it.
var wakeValue = *(*[8]byte)(unsafe.Pointer(&[1]uint64{1}))

// pollerWake triggers the wake event. The write cannot block.
func pollerWake(p cPoller) {
	for {
		if _, err := unix.Write(int(p.wakeFD), wakeValue[:]); err != unix.EINTR {
			return
		}
	}
}

// notifyOpen makes the descriptor through which the core tells that there is
// something for Go to do. Both ends are the same eventfd.
func notifyOpen() (r *os.File, w int, err error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, -1, os.NewSyscallError("eventfd", err)
	}
	return os.NewFile(uintptr(fd), "cfiber-notify"), fd, nil
}

func notifyClose(r *os.File, _ int) { r.Close() }
