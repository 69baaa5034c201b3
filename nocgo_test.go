//go:build !cgo

package cfiber

import (
	"fmt"
	"os"
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
	fn, err := NewCallback(func(arg uintptr) uintptr { return ctest.Callback(arg) })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctest.SetCallback(fn)
	os.Exit(m.Run())
}
