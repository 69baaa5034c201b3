package cfiber

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// C functions that are Go functions; the C half is csrc/callback.c.

// Constants of csrc/bridge.h.
const (
	maxCallbacks    = 512
	maxCallbackArgs = 6
)

// cCall is struct cfiber_call.
type cCall struct {
	index  uintptr
	args   [maxCallbackArgs]uintptr
	result uintptr
}

// A callback does a call: it converts the arguments, calls, and stores the result.
type callback func(c *cCall)

var callbacks struct {
	table [maxCallbacks]atomic.Pointer[callback]

	mu   sync.Mutex
	used int                       // slots that have been given out
	free []uint32                  // those that came back
	slot map[unsafe.Pointer]uint32 // of those that are in use
}

// NewCallback returns a C function that calls fn, for C code to call on a fiber
// or on any other thread. It is what an exported function of cgo is, without cgo:
// nothing need be written in C, and it works in programs with and without cgo,
// on all systems. fn runs as Go called from C does, on a stack of Go's, and the
// fiber's thread runs no other fiber meanwhile.
//
// fn has up to six parameters and at most one result, which are booleans,
// integers, uintptrs, pointers, or unsafe.Pointers. What C passes for a pointer
// must be one, and not a number. What fn returns must follow cgo's rules for
// passing pointers to C. The functions of types func(),
// func(uintptr) uintptr and func(unsafe.Pointer) int are called without
// reflection. The last is that of a fiber's function: Spawn takes it as well.
//
// There may be 512 at once; FreeCallback makes room. The errors are ErrInvalid
// for an fn of another type, ErrTooManyCallbacks, and, in a program without cgo
// in which New has not loaded the C core before, those of loading it.
func NewCallback(fn any) (unsafe.Pointer, error) {
	call, err := makeCallback(fn)
	if err != nil {
		return nil, &Error{Op: "callback", Err: both{ErrInvalid, err}}
	}
	if _, err := bridgeLoad("callback", ""); err != nil {
		return nil, err
	}
	t := &callbacks
	t.mu.Lock()
	defer t.mu.Unlock()
	var slot uint32
	switch n := len(t.free); {
	case n > 0:
		slot = t.free[n-1]
		t.free = t.free[:n-1]
	case t.used < maxCallbacks:
		slot = uint32(t.used)
		t.used++
	default:
		return nil, &Error{Op: "callback", Err: ErrTooManyCallbacks, Hint: "free those that C no longer calls"}
	}
	t.table[slot].Store(&call)
	address := bridgeCallback(slot)
	if t.slot == nil {
		t.slot = map[unsafe.Pointer]uint32{}
	}
	t.slot[address] = slot
	return address, nil
}

// FreeCallback gives back what NewCallback has returned. C must not call it any
// more: a call finds another function there, or none, which is a panic.
func FreeCallback(f unsafe.Pointer) {
	t := &callbacks
	t.mu.Lock()
	defer t.mu.Unlock()
	slot, ok := t.slot[f]
	if !ok {
		panic("cfiber: FreeCallback of what NewCallback has not returned, or a second time")
	}
	delete(t.slot, f)
	t.table[slot].Store(nil)
	t.free = append(t.free, slot)
}

// dispatchCallback is where all calls come in.
func dispatchCallback(c *cCall) {
	call := callbacks.table[c.index].Load()
	if call == nil {
		panic("cfiber: C called a function that FreeCallback has freed")
	}
	(*call)(c)
}

// ---- The conversions -----------------------------------------------------------

func makeCallback(fn any) (callback, error) {
	switch fn := fn.(type) {
	case func():
		if fn != nil {
			return func(*cCall) { fn() }, nil
		}
	case func(uintptr) uintptr:
		if fn != nil {
			return func(c *cCall) { c.result = fn(c.args[0]) }, nil
		}
	case func(unsafe.Pointer) int:
		if fn != nil {
			return func(c *cCall) { c.result = uintptr(fn(*(*unsafe.Pointer)(unsafe.Pointer(&c.args[0])))) }, nil
		}
	}
	v := reflect.ValueOf(fn)
	if err := checkCallback(v); err != nil {
		return nil, err
	}
	t := v.Type()
	return func(c *cCall) {
		args := make([]reflect.Value, t.NumIn())
		for i := range args {
			args[i] = callbackArg(t.In(i), &c.args[i])
		}
		if out := v.Call(args); len(out) > 0 {
			c.result = callbackResult(out[0])
		}
	}, nil
}

func checkCallback(v reflect.Value) error {
	switch {
	case v.Kind() != reflect.Func:
		return errors.New("the callback is not a function")
	case v.IsNil():
		return errors.New("the callback is nil")
	}
	t := v.Type()
	if t.IsVariadic() || t.NumIn() > maxCallbackArgs || t.NumOut() > 1 {
		return fmt.Errorf("a callback has up to %d parameters and one result, not %v", maxCallbackArgs, t)
	}
	for i := range t.NumIn() {
		if !isWord(t.In(i)) {
			return fmt.Errorf("a callback cannot have a parameter of type %v", t.In(i))
		}
	}
	if t.NumOut() > 0 && !isWord(t.Out(0)) {
		return fmt.Errorf("a callback cannot have a result of type %v", t.Out(0))
	}
	return nil
}

// isWord reports whether C passes a value of the type in a register for integers.
func isWord(t reflect.Type) bool {
	k := t.Kind()
	return (k >= reflect.Bool && k <= reflect.Uintptr || k == reflect.Pointer || k == reflect.UnsafePointer) &&
		t.Size() <= unsafe.Sizeof(uintptr(0))
}

const (
	bigEndian = runtime.GOARCH == "s390x" || runtime.GOARCH == "ppc64"
	// Where 32-bit values are sign-extended in registers, whether they are signed or not.
	extendsSign = runtime.GOARCH == "riscv64" || runtime.GOARCH == "loong64"
)

// callbackArg is the value in a word. What a word holds beyond it, C leaves open.
func callbackArg(t reflect.Type, word *uintptr) reflect.Value {
	p := unsafe.Pointer(word)
	if bigEndian {
		p = unsafe.Add(p, unsafe.Sizeof(*word)-t.Size())
	}
	if t.Kind() == reflect.Bool { // Go relies on its being 0 or 1
		return reflect.ValueOf(*(*byte)(p) != 0).Convert(t)
	}
	return reflect.NewAt(t, p).Elem()
}

func callbackResult(v reflect.Value) uintptr {
	switch k := v.Kind(); {
	case k == reflect.Bool:
		if v.Bool() {
			return 1
		}
		return 0
	case k == reflect.Uint32 && extendsSign:
		return uintptr(int32(v.Uint()))
	case v.CanInt():
		return uintptr(v.Int())
	case v.CanUint():
		return uintptr(v.Uint())
	default:
		return v.Pointer()
	}
}
