//go:build !cgo && ((darwin && !ios && (amd64 || arm64)) || (freebsd && (amd64 || arm64)) || (netbsd && (amd64 || arm64)) || (linux && !android && (amd64 || arm64 || loong64 || ppc64le || riscv64)))

package cfiber

// bridge.go without cgo: the same functions, called in the libcfiber that library_purego.go
// loads, through SyscallN, the cheapest of purego's ways. A Go variable that is passed has its
// address taken in the call itself: for that, SyscallN keeps it alive and in place.

import (
	"bytes"
	"sync"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
)

// coreFuncs are the addresses of the functions of csrc/bridge.h.
type coreFuncs struct {
	version, layout, open, close          uintptr
	threadInit, threadRun, cpuTime, serve uintptr
	balance, cancelAll, takeCanceled      uintptr
	fiberAlloc, fiberFree                 uintptr
	idBlock, current, symbol, callback    uintptr
	exceptions                            uintptr
	fault, nothing                        uintptr
}

// core is set once, before there is a runtime.
var core coreFuncs

type coreSymbol struct {
	name    string
	address *uintptr
}

// symbols lists the functions by their names in C. The version comes first: an older library may
// lack others.
func (f *coreFuncs) symbols() []coreSymbol {
	return []coreSymbol{
		{"cfiber_version", &f.version},
		{"cfiber_layout", &f.layout},
		{"cfiber_bridge_open", &f.open},
		{"cfiber_bridge_close", &f.close},
		{"cfiber_bridge_thread_init", &f.threadInit},
		{"cfiber_bridge_thread_run", &f.threadRun},
		{"cfiber_bridge_exceptions", &f.exceptions},
		{"cfiber_bridge_cpu_time", &f.cpuTime},
		{"cfiber_bridge_serve", &f.serve},
		{"cfiber_bridge_balance", &f.balance},
		{"cfiber_bridge_cancel_all", &f.cancelAll},
		{"cfiber_bridge_take_canceled", &f.takeCanceled},
		{"cfiber_bridge_fiber_alloc", &f.fiberAlloc},
		{"cfiber_bridge_fiber_free", &f.fiberFree},
		{"cfiber_id_block", &f.idBlock},
		{"cfiber_bridge_current", &f.current},
		{"cfiber_bridge_symbol", &f.symbol},
		{"cfiber_bridge_callback", &f.callback},
		{"cfiber_bridge_fault", &f.fault},
		{"cfiber_bridge_nothing", &f.nothing},
	}
}

// errnoOf makes an error of a C int.
func errnoOf(r uintptr) error {
	if e := int32(r); e != 0 {
		return syscall.Errno(e)
	}
	return nil
}

// layoutTable returns the C side's table of the shared memory.
func (f *coreFuncs) layoutTable() map[string]fieldLayout {
	type entry struct { // struct cfiber_layout_entry
		name         *byte
		offset, size uint32
	}
	var n uintptr
	table, _, _ := purego.SyscallN(f.layout, uintptr(unsafe.Pointer(&n)))
	m := make(map[string]fieldLayout, n)
	for _, e := range unsafe.Slice(pointerTo[entry](table), n) {
		m[stringAt(e.name)] = fieldLayout{uintptr(e.offset), uintptr(e.size)}
	}
	return m
}

// stringAt is a C string.
func stringAt(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

func bridgeLayout() map[string]fieldLayout { return core.layoutTable() }

func bridgeVersion() uint32 {
	v, _, _ := purego.SyscallN(core.version)
	return uint32(v)
}

func bridgeOpen(allocated, limit, maxFibers uint32, migrate bool, stackSize uint64, notifyFD int) (*cRuntime, error) {
	var rt *cRuntime
	var m uintptr
	if migrate {
		m = 1
	}
	e, _, _ := purego.SyscallN(core.open, uintptr(allocated), uintptr(limit), uintptr(maxFibers), m,
		uintptr(stackSize), uintptr(notifyFD), uintptr(unsafe.Pointer(&rt)))
	return rt, errnoOf(e)
}

func bridgeClose(rt *cRuntime) { purego.SyscallN(core.close, addressOf(rt)) }

func bridgeThreadInit(rt *cRuntime, index uint32) {
	purego.SyscallN(core.threadInit, addressOf(rt), uintptr(index))
}

// bridgeThreadRun runs fibers on the calling thread until the runtime stops.
func bridgeThreadRun(t *cThread) error {
	e, _, _ := purego.SyscallN(core.threadRun, addressOf(t))
	return errnoOf(e)
}

// bridgeCPUTime returns the thread's CPU time in nanoseconds, -1 if unknown.
func bridgeCPUTime(t *cThread) int64 {
	ns, _, _ := purego.SyscallN(core.cpuTime, addressOf(t))
	return int64(ns)
}

func bridgeServe(t *cThread) { purego.SyscallN(core.serve, addressOf(t)) }

func bridgeBalance(rt *cRuntime) int64 {
	n, _, _ := purego.SyscallN(core.balance, addressOf(rt))
	return int64(n)
}

func bridgeCancelAll(rt *cRuntime) { purego.SyscallN(core.cancelAll, addressOf(rt)) }

// bridgeTakeCanceled returns a list of fibers that nobody else will run.
func bridgeTakeCanceled(rt *cRuntime) *cFiber {
	f, _, _ := purego.SyscallN(core.takeCanceled, addressOf(rt))
	return pointerTo[cFiber](f)
}

// bridgeFiberAlloc fills out with free records and returns how many there were.
func bridgeFiberAlloc(rt *cRuntime, out []unsafe.Pointer) (int, error) {
	var e int32
	n, _, _ := purego.SyscallN(core.fiberAlloc, addressOf(rt), uintptr(len(out)),
		uintptr(unsafe.Pointer(&out[0])), uintptr(unsafe.Pointer(&e)))
	if n := uint32(n); n != 0 {
		return int(n), nil
	}
	return 0, errnoOf(uintptr(e))
}

func bridgeFiberFree(rt *cRuntime, records []unsafe.Pointer) {
	purego.SyscallN(core.fiberFree, addressOf(rt), uintptr(len(records)), uintptr(unsafe.Pointer(&records[0])))
}

// bridgeIDBlock returns the first of n ids that nobody else gets.
func bridgeIDBlock(n uint32) uint64 {
	id, _, _ := purego.SyscallN(core.idBlock, uintptr(n))
	return uint64(id)
}

// bridgeCurrent returns the fiber that the calling goroutine has been called
// from, or nil.
func bridgeCurrent() *cFiber {
	f, _, _ := purego.SyscallN(core.current)
	return pointerTo[cFiber](f)
}

// bridgeSymbol returns the name of the C function at an address, "" if unknown.
func bridgeSymbol(address uintptr) string {
	var name [128]byte
	found, _, _ := purego.SyscallN(core.symbol, address, uintptr(unsafe.Pointer(&name)), unsafe.Sizeof(name))
	if int32(found) == 0 {
		return ""
	}
	return string(name[:bytes.IndexByte(name[:], 0)])
}

// goCallback is the one function of Go that C calls. purego never frees one, and has few.
var goCallback = sync.OnceValue(func() uintptr { return purego.NewCallback(dispatchCallback) })

// bridgeCallback returns the C function that calls the callback in that slot.
func bridgeCallback(slot uint32) unsafe.Pointer {
	f, _, _ := purego.SyscallN(core.callback, uintptr(slot), goCallback())
	return unsafe.Pointer(pointerTo[byte](f))
}

// bridgeFault arms fault injection; see csrc/fault.h.
func bridgeFault(site int, e syscall.Errno, first, count uint32) {
	purego.SyscallN(core.fault, uintptr(site), uintptr(e), uintptr(first), uintptr(count))
}

// bridgeNothing is a call of C, which orders memory for the race detector.
func bridgeNothing() { purego.SyscallN(core.nothing) }
