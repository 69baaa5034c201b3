//go:build darwin || dragonfly || freebsd

package cfiber

import "golang.org/x/sys/unix"

// wakeIdent is the number of the user event that wakes a thread. All fields of
// the event are as in csrc/poller_kqueue.c; Udata stays nil, since the event
// carries no meaning.
const wakeIdent = 0

// addWakeEvent registers the user event, once, with EV_CLEAR: it neither goes
// away nor stays ready after it has been reported.
func addWakeEvent(p *cPoller) error {
	var k unix.Kevent_t
	unix.SetKevent(&k, wakeIdent, unix.EVFILT_USER, unix.EV_ADD|unix.EV_CLEAR)
	return change(p.fd, k)
}

// pollerWake triggers the wake event. The flags must be 0: together with EV_ADD
// the trigger is lost where the event is new.
func pollerWake(p cPoller) {
	var k unix.Kevent_t
	unix.SetKevent(&k, wakeIdent, unix.EVFILT_USER, 0)
	k.Fflags = unix.NOTE_TRIGGER
	_ = change(p.fd, k)
}
