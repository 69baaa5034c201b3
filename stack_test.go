package cfiber

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/cfiber/cfiber/internal/ctest"
)

// Stacks of every size hold what they should, and are used again.
func TestStackSizes(t *testing.T) {
	rt := openTest(t, Options{StackSize: 64 << 10})
	for _, c := range []struct{ size, depth int }{
		{16 << 10, 6}, {32 << 10, 20}, {0, 50}, {100 << 10, 80}, {1 << 20, 1000}, {16 << 20, 15000},
	} {
		for range 20 {
			if got := call(t, rt, ctest.Recurse, number(c.depth), Attr{StackSize: c.size}); got != c.depth {
				t.Errorf("stack of %d: depth %d", c.size, got)
			}
		}
	}
	if s := rt.Stats().StackSize; s != 64<<10 {
		t.Errorf("default %d", s)
	}
}

// What deep calls have touched goes back to the system (fault 11).
func TestDeepCallsGiveMemoryBack(t *testing.T) {
	rt := openTest(t, Options{})
	const n = 1000
	deep := func(depth int) {
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() { call(t, rt, ctest.RecurseAndSleep, number(depth)) })
		}
		wg.Wait()
	}
	deep(1) // the first page of each stack, Go's goroutines and handles
	runtime.GC()
	before := residentBytes(t)
	deep(300) // some 170 KiB each
	runtime.GC()
	after := residentBytes(t)
	t.Logf("%d KiB resident before, %d after %d deep calls", before>>10, after>>10, n)
	// What stays: 16 KiB each, and up to 64 untrimmed stacks per thread.
	if limit := before + n*24<<10 + rt.opts.Threads*64*256<<10; after > limit {
		t.Errorf("%d KiB resident after, limit %d", after>>10, limit>>10)
	}
}

// An overflow ends the process, with a message that names what there is to name,
// and then Go's own report (or the address sanitizer's). The child is this test binary.
func TestOverflow(t *testing.T) {
	const child = "CFIBER_TEST_OVERFLOW"
	if kind := os.Getenv(child); kind != "" {
		rt, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		fn := ctest.Recurse
		if kind == "large frames" {
			fn = ctest.RecurseLarge
		}
		rt.Call(context.Background(), fn, unsafe.Add(nil, math.MaxInt), Attr{Name: "deep one"})
		fmt.Println("returned")
		return
	}
	for _, kind := range []string{"small frames", "large frames"} {
		out, err := itself(t, child, kind).CombinedOutput()
		if err == nil || strings.Contains(string(out), "returned") {
			t.Fatalf("%s: %v\n%s", kind, err, out)
		}
		for _, want := range []string{
			`cfiber: stack overflow in fiber \d+ "deep one", entry function .*at 0x[0-9a-f]+`,
			`its stack is 0x[0-9a-f]+ to 0x[0-9a-f]+ \(262144 bytes\)`,
			`Options\.StackSize`,
			`SIGSEGV|SIGBUS|AddressSanitizer`,
			`goroutine |AddressSanitizer`,
		} {
			if !regexp.MustCompile(want).Match(out) {
				t.Errorf("%s: no %q in\n%s", kind, want, out)
			}
		}
	}
}

// Another fault than an overflow is Go's alone, and a nil dereference in Go,
// called from a fiber, is still a panic that can be recovered.
func TestOtherFaults(t *testing.T) {
	if emulator() != nil && runtime.GOARCH == "ppc64le" {
		t.Skip("qemu leaves out of a signal's frame the register DAR, where Go looks for the address")
	}
	rt := openTest(t, Options{})
	ctest.Callback = func(uintptr) (r uintptr) {
		defer func() {
			if recover() != nil {
				r = 1
			}
		}()
		var p *int
		return uintptr(*p)
	}
	if got := call(t, rt, ctest.CallGo, nil); got != 1 {
		t.Error(got)
	}
}

// An unrecovered panic in a Go function that a fiber calls ends the program with
// Go's report; Goexit there ends it with ours.
func TestPanicInCallback(t *testing.T) {
	const child = "CFIBER_TEST_PANIC"
	if kind := os.Getenv(child); kind != "" {
		rt, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctest.Callback = func(uintptr) uintptr {
			if kind == "goexit" {
				runtime.Goexit()
			}
			panic("out of a fiber")
		}
		rt.Call(context.Background(), ctest.CallGo, nil, Attr{Name: "panicker"})
		fmt.Println("returned")
		return
	}
	for kind, want := range map[string]string{
		"panic":  `panic: out of a fiber`,
		"goexit": `runtime\.Goexit in a Go function called from a fiber.*panicker`,
	} {
		out, err := itself(t, child, kind).CombinedOutput()
		if err == nil || strings.Contains(string(out), "returned") || !regexp.MustCompile(want).Match(out) {
			t.Errorf("%s: %v\n%s", kind, err, out)
		}
	}
}

// Where the kernel has no guard in the page table, mprotect serves (fault 9).
func TestMprotectGuards(t *testing.T) {
	if rt := openTest(t, Options{}); call(t, rt, ctest.Return, nil) == 0 && rt.Stats().Guards != "install" {
		t.Skip("this kernel has only mprotect: every test covers it")
	}
	inject(t, faultGuard, 22 /* EINVAL: an older kernel */, 1, 1)
	rt := openTest(t, Options{})
	if got := call(t, rt, ctest.Recurse, number(100)); got != 100 || rt.Stats().Guards != "mprotect" {
		t.Errorf("%d, guards %s", got, rt.Stats().Guards)
	}
}
