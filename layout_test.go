package cfiber

import (
	"testing"
	"unsafe"
)

// Every offset and size of the shared memory is the same on both sides.
func TestLayout(t *testing.T) {
	theirs := bridgeLayout()
	if err := matchLayout(theirs); err != nil {
		t.Error(err)
	}
	if theirs[layoutThread].size%64 != 0 ||
		theirs[layoutFiber].size%64 != 0 {
		t.Error("structures are not whole cache lines")
	}
}

// A difference in either direction is seen.
func TestLayoutMismatch(t *testing.T) {
	for name, change := range map[string]func(m map[string]fieldLayout){
		"moved":   func(m map[string]fieldLayout) { m["cfiber.wait"] = fieldLayout{8, 8} },
		"resized": func(m map[string]fieldLayout) { m["cfiber_runtime.stop"] = fieldLayout{0, 1} },
		"gone":    func(m map[string]fieldLayout) { delete(m, "cfiber_thread.running") },
		"new":     func(m map[string]fieldLayout) { m["cfiber.colour"] = fieldLayout{0, 8} },
	} {
		m := bridgeLayout()
		change(m)
		if matchLayout(m) == nil {
			t.Errorf("%s: not seen", name)
		}
	}
}

func TestVersion(t *testing.T) {
	if v := bridgeVersion(); v != coreVersion {
		t.Errorf("%#x in C, %#x in Go", v, coreVersion)
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
