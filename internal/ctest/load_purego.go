//go:build !cgo && ((darwin && !ios && (amd64 || arm64)) || (freebsd && (amd64 || arm64)) || (netbsd && (amd64 || arm64)) || (linux && !android && (amd64 || arm64 || loong64 || ppc64le || riscv64)))

package ctest

import (
	"errors"
	"os"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Err tells why the functions are not there.
var library, Err = load()

func load() (uintptr, error) {
	path := os.Getenv("CFIBER_CTEST_LIBRARY")
	if path == "" {
		return 0, errors.New("CFIBER_CTEST_LIBRARY does not name the library of C test functions: " +
			"./build.sh test purego builds it and runs the tests")
	}
	return purego.Dlopen(path, purego.RTLD_NOW)
}

// symbol returns the address of what the library has by that name.
func symbol(name string) unsafe.Pointer {
	if Err != nil {
		return nil
	}
	address, err := purego.Dlsym(library, name)
	if err != nil {
		panic(err) // the library is of other sources
	}
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// SetCallback tells the library what to call when it calls Go: a C function that calls Callback.
func SetCallback(fn unsafe.Pointer) { *(*unsafe.Pointer)(symbol("ctest_callback")) = fn }

// CallNoFiber calls a C function on a plain thread, without a fiber.
func CallNoFiber(fn, arg unsafe.Pointer) int {
	var result uintptr
	if n := uintptr(arg); n < 4096 {
		// A number. As a pointer that is kept alive over the call it would be found on the stack.
		result, _, _ = purego.SyscallN(uintptr(fn), n)
	} else {
		result, _, _ = purego.SyscallN(uintptr(fn), uintptr(arg))
	}
	return int(result)
}
