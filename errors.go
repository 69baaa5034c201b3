package cfiber

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
)

// Errors that the package's functions return, or wrap; test with errors.Is.
var (
	// ErrClosed: the runtime is closed or shutting down, or was not made by New.
	ErrClosed = errors.New("cfiber: the runtime is closed")
	// ErrInvalid: an argument or option is out of range.
	ErrInvalid = errors.New("cfiber: invalid argument")
	// ErrTooManyFibers: Options.MaxFibers are alive.
	ErrTooManyFibers = errors.New("cfiber: too many fibers")
	// ErrNoMemory: the system gave no memory for a fiber or its stack.
	ErrNoMemory = errors.New("cfiber: out of memory")
	// ErrCanceled: the fiber was asked to end, by Cancel, by its context, or by Close.
	ErrCanceled = errors.New("cfiber: the fiber was canceled")
	// ErrNotStarted: the fiber was canceled, and its function has not been called.
	ErrNotStarted = errors.New("cfiber: it was never started")
	// ErrDeadlock: the call would wait for the fiber it has been made from.
	ErrDeadlock = errors.New("cfiber: waiting here would never end")
	// ErrStillRunning: fibers did not end in time.
	ErrStillRunning = errors.New("cfiber: fibers are still running")
	// ErrNoCgo: the program was built with CGO_ENABLED=0, for a system where the C core cannot be
	// loaded while it runs.
	ErrNoCgo = errors.New("cfiber: built without cgo, which " + runtime.GOOS + "/" + runtime.GOARCH + " cannot do without")
	// ErrNoLibrary: a program without cgo did not find libcfiber.
	ErrNoLibrary = errors.New("cfiber: no libcfiber could be loaded")
	// ErrMismatch: the C core, which in a program without cgo is the libcfiber that was found, is not
	// that of this version of the package.
	ErrMismatch = errors.New("cfiber: the C core and the Go package do not match")
	// ErrTooManyCallbacks: 512 of NewCallback's functions are in use.
	ErrTooManyCallbacks = errors.New("cfiber: too many callbacks")
	// ErrUnsupported: the process runs with something that fibers cannot have, as yet user shadow stacks.
	ErrUnsupported = errors.New("cfiber: not supported here")
)

// An Error tells which operation failed, on which fiber. It wraps one of the
// errors above, and what caused it.
type Error struct {
	Op   string // "spawn", "call", "wait", "new", "close", "shutdown", "callback"
	ID   uint64 // of the fiber; 0 if there is none
	Name string // of the fiber
	Err  error  // what happened
	Hint string // what to do about it; may be empty
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("cfiber: ")
	b.WriteString(e.Op)
	if e.ID != 0 {
		fmt.Fprintf(&b, ": fiber %d", e.ID)
	}
	if e.Name != "" {
		fmt.Fprintf(&b, " %q", e.Name)
	}
	b.WriteString(": ")
	b.WriteString(strings.ReplaceAll(e.Err.Error(), "cfiber: ", ""))
	if e.Hint != "" {
		b.WriteString("; ")
		b.WriteString(e.Hint)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// both wraps two errors in one line: what it means here, and the cause.
type both struct{ err, cause error }

func (b both) Error() string   { return b.err.Error() + ": " + b.cause.Error() }
func (b both) Unwrap() []error { return []error{b.err, b.cause} }

// wrapErrno turns what the core returned into one of the package's errors.
func wrapErrno(op string, err error) error {
	e := &Error{Op: op, Err: err}
	switch err {
	case nil:
		return nil
	case syscall.EAGAIN:
		e.Err, e.Hint = ErrTooManyFibers, "raise Options.MaxFibers or wait for some to end"
	case syscall.ENOMEM:
		e.Err = both{ErrNoMemory, err}
		e.Hint = "check the memory limit and vm.max_map_count, or lower Options.StackSize"
	case syscall.EINVAL:
		e.Err = both{ErrInvalid, err}
	case syscall.ENOTSUP:
		e.Err = both{ErrUnsupported, err}
		e.Hint = "run the process without user shadow stacks"
	}
	return e
}
