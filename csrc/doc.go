// Package csrc is cfiber's core in C and assembly: contexts, stacks, fibers,
// queues, timers and the wait for events.
//
// It is a Go package of its own, with nothing to call from Go, because cgo
// compiles the C files of a package's own folder and no others. The root
// package imports it for that effect; programs import the root package.
//
// This file has no build tag, so that the package has a Go file even where cgo
// is off and cgo.go is left out.
package csrc

// The header's folder is imported for two reasons: `go mod vendor` copies only
// folders that are packages somebody imports, and a change of the header alone
// must rebuild the C files here. The go command hashes the files of a package
// and its imports, but no file that an -I flag leads to; the other package
// embeds the header, which makes the header part of what is hashed.
import _ "github.com/cfiber/cfiber/csrc/include"
