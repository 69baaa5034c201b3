//go:build netbsd || openbsd

package cfiber

import "golang.org/x/sys/unix"

// OpenBSD has no EVFILT_USER, or only of late, and NetBSD has it since release
// 10, so a pipe wakes a thread there. csrc/poller_kqueue.c decides likewise, and
// reads what is written when there is much of it.

// addWakeEvent makes the pipe and registers its read end.
func addWakeEvent(p *cPoller) error {
	r, w, err := openPipe()
	if err != nil {
		return err
	}
	p.wakeReadFD, p.wakeFD = int32(r), int32(w)
	var k unix.Kevent_t
	unix.SetKevent(&k, r, unix.EVFILT_READ, unix.EV_ADD|unix.EV_CLEAR)
	return change(p.fd, k)
}

// pollerWake writes to the pipe: each write is an event. If the pipe is full, an
// event is pending, or the thread is about to look around.
func pollerWake(p cPoller) {
	for {
		if _, err := unix.Write(int(p.wakeFD), []byte{0}); err != unix.EINTR {
			return
		}
	}
}
