//go:build cgo

package fiber

// #include "timers.h"
// #include <stdlib.h>
import "C"

import (
	"errors"
	"time"
	"unsafe"

	"github.com/cfiber/cfiber"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/subjects"
)

func timers(t *subjects.T) error {
	length := t.Duration()
	memory := C.calloc(1, C.sizeof_struct_window)
	if memory == nil {
		return errors.New("no memory")
	}
	if unsafe.Sizeof(subjects.Window{}) > C.sizeof_struct_window {
		return errors.New("struct window is smaller in C than in Go")
	}
	// Small stacks, as for any fibers by the million: 85 of them share a page of page tables, of the
	// default's 256 KiB only six.
	rt, err := cfiber.New(cfiber.Options{StackSize: 16 << 10})
	if err != nil {
		return err
	}
	args := (*C.struct_timers)(C.calloc(1, C.sizeof_struct_timers))
	*args = C.struct_timers{n: C.int64_t(t.N()), length: C.int64_t(length), late: (*C.struct_window)(memory)}
	begin := time.Now()
	if err := call(rt, C.bench_timers, unsafe.Pointer(args)); err != nil {
		return err
	}
	return t.Measure((*subjects.Window)(memory), begin, length)
}
