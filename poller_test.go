//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package cfiber

import (
	"os"
	"testing"
	"time"
)

// The wake event as Go makes it, seen with the system's own calls: pollerWait,
// in poller_linux_test.go and poller_bsd_test.go. That C agrees with it is what
// every test of a runtime shows.

func openTestPoller(t *testing.T) cPoller {
	t.Helper()
	p, err := pollerOpen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pollerClose(p) })
	return p
}

// waitFor waits in the poller and returns how many events came.
func waitFor(t *testing.T, p cPoller, timeout time.Duration) int {
	t.Helper()
	n, err := pollerWait(p, timeout)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPollerWake(t *testing.T) {
	p := openTestPoller(t)
	if n := waitFor(t, p, 10*time.Millisecond); n != 0 {
		t.Fatalf("a fresh poller has %d events", n)
	}
	// A wake is remembered, each of them, also the first.
	for i := range 100 {
		pollerWake(p)
		if n := waitFor(t, p, 20*time.Second); n != 1 {
			t.Fatalf("wait %d: %d events, want 1", i, n)
		}
	}
	// The event does not stay ready.
	if n := waitFor(t, p, 50*time.Millisecond); n != 0 {
		t.Fatalf("%d events after the last wake", n)
	}
	// Many are one.
	for range 1000 {
		pollerWake(p)
	}
	if n := waitFor(t, p, 20*time.Second); n != 1 {
		t.Fatalf("%d events, want 1", n)
	}
	if n := waitFor(t, p, 50*time.Millisecond); n != 0 {
		t.Fatalf("%d events after that", n)
	}
}

func TestPollerWakeAcrossGoroutines(t *testing.T) {
	p := openTestPoller(t)
	woken := make(chan struct{})
	go func() {
		for range 1000 {
			pollerWake(p)
			<-woken
		}
	}()
	for i := range 1000 {
		if n := waitFor(t, p, 20*time.Second); n != 1 {
			t.Fatalf("wake %d was lost", i)
		}
		woken <- struct{}{}
	}
}

// nextFD is the lowest free number.
func nextFD(t *testing.T) uintptr {
	t.Helper()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return f.Fd()
}

func TestPollerCloseLeaksNothing(t *testing.T) {
	before := nextFD(t)
	for range 100 {
		p, err := pollerOpen()
		if err != nil {
			t.Fatal(err)
		}
		pollerClose(p)
		r, w, err := notifyOpen()
		if err != nil {
			t.Fatal(err)
		}
		notifyClose(r, w)
	}
	// Other tests' runtimes may still be closing theirs; a leak would be 100 or more.
	if after := nextFD(t); after >= before+50 {
		t.Errorf("the lowest free descriptor was %d and is %d", before, after)
	}
}

func TestNotify(t *testing.T) {
	r, w, err := notifyOpen()
	if err != nil {
		t.Fatal(err)
	}
	defer notifyClose(r, w)
	var buf [64]byte
	for range 10 {
		notifyWrite(t, w)
		if n, err := r.Read(buf[:]); n == 0 || err != nil {
			t.Fatalf("read %d bytes, %v", n, err)
		}
	}
	// A reader is woken by the close, too.
	done := make(chan error)
	go func() {
		_, err := r.Read(buf[:])
		done <- err
	}()
	r.Close()
	if err := <-done; err == nil {
		t.Error("a read of the closed end has succeeded")
	}
}
