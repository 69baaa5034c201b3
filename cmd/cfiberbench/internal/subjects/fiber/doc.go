// Package fiber is the subjects in C that are part of cfiberbench: "cfiber", which has C
// functions on fibers, "cgo", which calls them as they are, and some limits. Built without cgo
// it has none.
package fiber
