//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package cfiber

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func pollerWait(p cPoller, timeout time.Duration) (int, error) {
	var events [8]unix.Kevent_t
	until := time.Now().Add(timeout)
	for {
		ts := unix.NsecToTimespec(max(0, time.Until(until).Nanoseconds()))
		n, err := unix.Kevent(int(p.fd), nil, events[:], &ts)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// notifyWrite does what cfiber_notify does.
func notifyWrite(t *testing.T, w int) {
	t.Helper()
	if _, err := unix.Write(w, make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
}
