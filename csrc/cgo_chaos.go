//go:build cgo && cfiber_chaos

package csrc

// See chaos.h.

// #cgo CFLAGS: -DCFIBER_CHAOS
import "C"
