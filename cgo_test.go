//go:build cgo

package cfiber

import (
	"errors"
	"testing"
)

const cgoEnabled = true

// With cgo the core is in the program, and no library is loaded.
func TestLibraryWithCgo(t *testing.T) {
	rt, err := New(Options{Library: "libcfiber.so"})
	if rt != nil || !errors.Is(err, ErrInvalid) {
		t.Errorf("%v, %v", rt, err)
	}
}
