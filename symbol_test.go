package cfiber

import (
	"debug/elf"
	"runtime"
	"testing"

	"github.com/cfiber/cfiber/internal/ctest"
)

// Entry functions have names in messages, be they of the program or of a library.
func TestSymbol(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("names are found on Linux only")
	}
	openTest(t, Options{})
	if stripped(t) {
		t.Skip("go test has left the symbols of the program out, unless by -c: ./build.sh test purego has a library")
	}
	for want, fn := range map[string]uintptr{
		"ct_return":    uintptr(ctest.Return),
		"ct_fib":       uintptr(ctest.Fib),
		"":             uintptr(ctest.Return) + 1, // begins no function
		"ct_call_loop": uintptr(ctest.CallLoop),
	} {
		if got := bridgeSymbol(fn); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var n int
	for _, address := range []uintptr{0, 1, addressOf(&n), ^uintptr(0)} {
		if got := bridgeSymbol(address); got != "" {
			t.Errorf("%#x is %q", address, got)
		}
	}
}

// stripped reports whether the C functions of the tests are in this program, and it has no symbols.
func stripped(t *testing.T) bool {
	if cgoEnabled {
		f, err := elf.Open("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return f.Section(".symtab") == nil
	}
	return false
}
