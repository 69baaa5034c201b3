//go:build !cgo

package cfiber

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/cfiber/cfiber/internal/ctest"
)

const cgoEnabled = false

// Without cgo the C functions of the tests come from a library, and call Go by a callback.
func TestMain(m *testing.M) {
	if ctest.Err != nil {
		fmt.Fprintln(os.Stderr, "no tests without cgo:", ctest.Err)
		os.Exit(1)
	}
	allowNumbers()
	fn, err := NewCallback(func(arg uintptr) uintptr { return ctest.Callback(arg) })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctest.SetCallback(fn)
	os.Exit(m.Run())
}

// allowNumbers starts the program again so that a small number may be in a pointer variable, as
// those are that the tests pass to C, when a stack is copied. Go's runtime would end the program.
// With cgo a stack hardly ever grows just there, but purego's calls have large frames.
func allowNumbers() {
	const setting = "invalidptr=0"
	old := os.Getenv("GODEBUG")
	if strings.Contains(old, setting) {
		return
	}
	if old != "" {
		old += ","
	}
	path, err := os.Executable()
	if err == nil {
		os.Setenv("GODEBUG", old+setting)
		err = syscall.Exec(path, os.Args, os.Environ())
	}
	fmt.Fprintln(os.Stderr, "cannot start again:", err)
	os.Exit(1)
}
