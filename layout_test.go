//go:build cgo

package cfiber

import (
	"testing"
	"unsafe"
)

// Every offset and size of the shared memory is the same on both sides.
func TestLayout(t *testing.T) {
	theirs, ours := bridgeLayout(), layoutTable()
	for name, want := range ours {
		if got, ok := theirs[name]; !ok || got != want {
			t.Errorf("%s: %+v in C, %+v in Go", name, got, want)
		}
	}
	// What C lists and Go does not is known here, so that a new field is not forgotten.
	onlyC := map[string]bool{layoutFiber: true, layoutThread: true, layoutRuntime: true, layoutGuardKind: true}
	for name := range theirs {
		if _, ok := ours[name]; !ok && !onlyC[name] {
			t.Errorf("%s is shared, but Go does not name it", name)
		}
	}
	if theirs[layoutThread].size%64 != 0 ||
		theirs[layoutFiber].size%64 != 0 {
		t.Error("structures are not whole cache lines")
	}
}

// What one side writes is on cache lines of its own.
func TestCacheLines(t *testing.T) {
	line := func(offset uintptr) uintptr { return offset / 64 }
	var th cThread
	var rt cRuntime
	if line(unsafe.Offsetof(th.readyQueue)) == line(unsafe.Offsetof(th.ringHead)) ||
		line(unsafe.Offsetof(th.ringTail)) == line(unsafe.Offsetof(th.switches)) {
		t.Error("a thread's queues share a line with something else")
	}
	if line(unsafe.Offsetof(rt.idle)) == line(unsafe.Offsetof(rt.active)) ||
		line(unsafe.Offsetof(rt.injected)) == line(unsafe.Offsetof(rt.completions)) {
		t.Error("a runtime's queues share a line with something else")
	}
}
