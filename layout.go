package cfiber

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// The structures below are the Go view of those in csrc/core.h: the same bytes.
// Only what Go uses has a name. layoutTable lists them all; New compares it
// with the C side's table before it opens anything, and so does a test.
//
// Addresses that C may replace by small numbers (the heads of queues) are
// uintptr, since a pointer variable must never hold such a number.

// cFiber is struct cfiber.
type cFiber struct {
	wait   atomic.Uint64 // the wait word; see park.go
	next   uintptr       // link of the one queue the fiber is on
	thread unsafe.Pointer
	flags  uint32
	index  uint32
	result int
	error  int32
	_      int32
	_      unsafe.Pointer
	stack  unsafe.Pointer

	fn        unsafe.Pointer
	arg       uintptr // may be a Go pointer, pinned: not for the collector to see
	id        uint64
	stackSize uintptr
	deadline  int64
	joiner    uintptr
	_         uint64
	_         unsafe.Pointer

	_       uint32
	_       uint32
	shield  uint8
	queued  uint8
	_       uint16
	_       uint32
	runtime unsafe.Pointer
	_       uint64
	name    [nameMax]byte
}

// cThread is the first part of struct cfiber_thread.
type cThread struct {
	readyQueue atomic.Uintptr // readyIdle, readyBusy, or a list, newest first
	_          [56]byte

	ringHead atomic.Uint32
	ringTail atomic.Uint32
	_        [56]byte
	_        [ringSize]uintptr

	switches atomic.Uint64
	spawned  atomic.Uint64
	finished atomic.Uint64
	steals   atomic.Uint64
	wakes    atomic.Uint64
	waits    atomic.Uint64
	running  atomic.Uintptr // the current fiber; 0 in the scheduler
	index    uint32
	poller   cPoller
	osThread uint32 // the kernel's number of the thread; 0 if unknown
}

// cPoller is struct poller.
type cPoller struct {
	fd         int32 // epoll or kqueue
	wakeFD     int32 // an eventfd or the write end of a pipe; -1: EVFILT_USER
	wakeReadFD int32 // the read end of the pipe; else -1
}

// cRuntime is the first part of struct cfiber_runtime.
type cRuntime struct {
	idle            atomic.Uint32 // threads in or about to enter the poller
	searching       atomic.Uint32 // who looks for work: index + 1, or one of two constants
	idleSearchIndex atomic.Uint32
	_               [52]byte

	active    atomic.Uint32 // threads that run
	reserved  atomic.Uint32 // slots given out
	allocated uint32        // slots there are
	limit     atomic.Uint32 // slots schedule may use
	stop      atomic.Uint32
	closing   atomic.Uint32
	draining  atomic.Uint32
	threads   unsafe.Pointer
	_         [24]byte

	injected   atomic.Uintptr
	globalSize atomic.Uint32
	_          [52]byte

	completions    atomic.Uintptr // ended fibers, newest first
	notified       atomic.Uint32
	watchdogAsleep atomic.Uint32
	wantThread     atomic.Uint32
	_              int32
	migrate        uint32
	stackSize      uintptr
}

// Constants of csrc/core.h.
const (
	nameMax  = 32
	ringSize = 256

	readyIdle = 0 // about to wait, or waiting
	readyBusy = 1 // awake, nothing handed over

	searchingNobody   = 0
	searchingChoosing = 1<<32 - 1

	flagMigratable = 0x1
	flagKeepFP     = 0x2
	flagGo         = 0x100
	flagStarted    = 0x200

	joinerDetached = 2

	stackMin = 16 << 10
	stackMax = 1 << 30

	maxIdleSearch = 4
	maxThreads    = 1024
)

// The version of csrc/include/cfiber.h, and what cfiber_version makes of it.
const (
	versionMajor, versionMinor, versionPatch = 0, 1, 0

	coreVersion = versionMajor<<16 | versionMinor<<8 | versionPatch
)

type fieldLayout struct{ offset, size uintptr }

// field describes a field of a structure by its address within a zero value.
func field[T any](base unsafe.Pointer, f *T) fieldLayout {
	return fieldLayout{uintptr(unsafe.Pointer(f)) - uintptr(base), unsafe.Sizeof(*f)}
}

// layoutTable is what Go expects. Names are those of the C side.
func layoutTable() map[string]fieldLayout {
	f, t, r, c := new(cFiber), new(cThread), new(cRuntime), new(cCall)
	fp, tp, rp, cp := unsafe.Pointer(f), unsafe.Pointer(t), unsafe.Pointer(r), unsafe.Pointer(c)
	return map[string]fieldLayout{
		"cfiber.wait":       field(fp, &f.wait),
		"cfiber.next":       field(fp, &f.next),
		"cfiber.thread":     field(fp, &f.thread),
		"cfiber.flags":      field(fp, &f.flags),
		"cfiber.index":      field(fp, &f.index),
		"cfiber.result":     field(fp, &f.result),
		"cfiber.error":      field(fp, &f.error),
		"cfiber.stack":      field(fp, &f.stack),
		"cfiber.fn":         field(fp, &f.fn),
		"cfiber.arg":        field(fp, &f.arg),
		"cfiber.id":         field(fp, &f.id),
		"cfiber.stack_size": field(fp, &f.stackSize),
		"cfiber.deadline":   field(fp, &f.deadline),
		"cfiber.joiner":     field(fp, &f.joiner),
		"cfiber.shield":     field(fp, &f.shield),
		"cfiber.queued":     field(fp, &f.queued),
		"cfiber.runtime":    field(fp, &f.runtime),
		"cfiber.name":       field(fp, &f.name),

		"cfiber_thread.ready_queue":  field(tp, &t.readyQueue),
		"cfiber_thread.ring_head":    field(tp, &t.ringHead),
		"cfiber_thread.ring_tail":    field(tp, &t.ringTail),
		"cfiber_thread.switches":     field(tp, &t.switches),
		"cfiber_thread.spawned":      field(tp, &t.spawned),
		"cfiber_thread.finished":     field(tp, &t.finished),
		"cfiber_thread.steals":       field(tp, &t.steals),
		"cfiber_thread.wakes":        field(tp, &t.wakes),
		"cfiber_thread.waits":        field(tp, &t.waits),
		"cfiber_thread.running":      field(tp, &t.running),
		"cfiber_thread.index":        field(tp, &t.index),
		"cfiber_thread.poller":       field(tp, &t.poller),
		"cfiber_thread.os_thread_id": field(tp, &t.osThread),

		"cfiber_runtime.idle":              field(rp, &r.idle),
		"cfiber_runtime.searching":         field(rp, &r.searching),
		"cfiber_runtime.idle_search_index": field(rp, &r.idleSearchIndex),
		"cfiber_runtime.active":            field(rp, &r.active),
		"cfiber_runtime.reserved":          field(rp, &r.reserved),
		"cfiber_runtime.allocated":         field(rp, &r.allocated),
		"cfiber_runtime.limit":             field(rp, &r.limit),
		"cfiber_runtime.stop":              field(rp, &r.stop),
		"cfiber_runtime.closing":           field(rp, &r.closing),
		"cfiber_runtime.draining":          field(rp, &r.draining),
		"cfiber_runtime.threads":           field(rp, &r.threads),
		"cfiber_runtime.injected":          field(rp, &r.injected),
		"cfiber_runtime.global_size":       field(rp, &r.globalSize),
		"cfiber_runtime.completions":       field(rp, &r.completions),
		"cfiber_runtime.notified":          field(rp, &r.notified),
		"cfiber_runtime.watchdog_asleep":   field(rp, &r.watchdogAsleep),
		"cfiber_runtime.want_thread":       field(rp, &r.wantThread),
		"cfiber_runtime.migrate":           field(rp, &r.migrate),
		"cfiber_runtime.stack_size":        field(rp, &r.stackSize),

		"cfiber_call":        field(cp, c),
		"cfiber_call.index":  field(cp, &c.index),
		"cfiber_call.args":   field(cp, &c.args),
		"cfiber_call.result": field(cp, &c.result),
	}
}

// What the C side alone knows: the sizes of structures of which Go has the first part, and where
// something is that Go has no name for.
const (
	layoutFiber     = "cfiber" // larger where the C code is built with a sanitizer
	layoutThread    = "cfiber_thread"
	layoutRuntime   = "cfiber_runtime"
	layoutGuardKind = "cfiber_runtime.guard_kind"
)

// matchLayout compares the C side's table with Go's.
func matchLayout(theirs map[string]fieldLayout) error {
	ours := layoutTable()
	for name, want := range ours {
		if got, ok := theirs[name]; !ok || got != want {
			return fmt.Errorf("%s is %+v in C, %+v in Go", name, got, want)
		}
	}
	for name := range theirs {
		switch name {
		case layoutFiber, layoutThread, layoutRuntime, layoutGuardKind:
		default:
			if _, ok := ours[name]; !ok {
				return fmt.Errorf("%s is unknown in Go", name)
			}
		}
	}
	return nil
}

// pointerTo makes a pointer of an address in C memory.
func pointerTo[T any](address uintptr) *T {
	return *(**T)(unsafe.Pointer(&address))
}

func addressOf[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// announce stores v where others see it before anything that the caller looks at next: of
// two who announce and then look at each other's word, one sees the other. An atomic store
// does that too, except under the race detector, which stores to C memory as a release only
// (racecallatomic in Go's runtime/race_amd64.s, mo_release in tsan's __tsan_go_atomic32_store).
func announce(word *atomic.Uint32, v uint32) { word.Swap(v) }
