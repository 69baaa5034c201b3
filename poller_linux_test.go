package cfiber

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func pollerWait(p cPoller, timeout time.Duration) (int, error) {
	var events [8]unix.EpollEvent
	until := time.Now().Add(timeout)
	for {
		n, err := unix.EpollWait(int(p.fd), events[:], int(max(0, time.Until(until).Milliseconds())))
		if err != unix.EINTR {
			return n, err
		}
	}
}

// notifyWrite does what cfiber_notify does.
func notifyWrite(t *testing.T, w int) {
	t.Helper()
	if _, err := unix.Write(w, wakeValue[:]); err != nil {
		t.Fatal(err)
	}
}
