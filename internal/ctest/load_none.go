//go:build !cgo && !((darwin && !ios && (amd64 || arm64)) || (freebsd && (amd64 || arm64)) || (netbsd && (amd64 || arm64)) || (linux && !android && (amd64 || arm64 || loong64 || ppc64le || riscv64)))

package ctest

import (
	"errors"
	"unsafe"
)

// Err tells why the functions are not there.
var Err = errors.New("cfiber needs cgo on this system")

func symbol(string) unsafe.Pointer { return nil }

// SetCallback does nothing.
func SetCallback(unsafe.Pointer) {}

// CallNoFiber fails.
func CallNoFiber(_, _ unsafe.Pointer) int { panic(Err) }
