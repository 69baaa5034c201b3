// Package include holds cfiber.h, the header for C code that runs on fibers.
//
// A C compiler finds it in this folder, which
//
//	go list -f '{{.Dir}}' github.com/cfiber/cfiber/csrc/include
//
// prints, for a module in the module cache and for a vendored one alike. The
// command cfiber-header writes a copy of it.
package include

import _ "embed"

// Header is the text of cfiber.h.
//
//go:embed cfiber.h
var Header []byte
