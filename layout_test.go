package cfiber

import (
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
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

// spin waits awake, so that both sides of a litmus test go on at once.
func spin(until func() bool) {
	for n := 1; !until(); n++ {
		if n%1000 == 0 { // there may be one processor only
			runtime.Gosched()
		}
	}
}

// Who announces and then looks does not miss another who does, in C memory, whatever the build.
func TestAnnounceThenLook(t *testing.T) {
	const rounds = 200_000
	memory, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	var words [2]*atomic.Uint32 // on cache lines of their own, as in the core
	for i := range words {
		words[i] = (*atomic.Uint32)(unsafe.Pointer(&memory[256*i]))
	}
	var saw [2]uint32
	var round, ended, skew atomic.Uint32
	meet := func(me int) {
		announce(words[me], 1)
		saw[me] = words[1-me].Load()
		ended.Add(1)
	}
	go func() {
		for r := range uint32(rounds) {
			spin(func() bool { return round.Load() == r+1 })
			meet(1)
		}
	}()
	missed := 0
	for r := range uint32(rounds) {
		round.Store(r + 1)
		for i := range r % 16 { // to meet the other, which hears of the round later
			skew.Store(i)
		}
		meet(0)
		spin(func() bool { return ended.Load() == 2*(r+1) })
		if saw[0] == 0 && saw[1] == 0 {
			missed++
		}
		words[0].Store(0)
		words[1].Store(0)
	}
	if missed > 0 {
		t.Errorf("both missed the other in %d of %d rounds", missed, rounds)
	}
}
