//go:build cgo

package csrc

// What the flags are for:
//
//   - -O2: a CGO_CFLAGS in the environment replaces cgo's own "-O2 -g", and
//     CGO_CFLAGS=-I... is one of the documented ways to find the header. The
//     core must not lose its optimisation to that.
//   - CFIBER_CGO: tells the C files that Go's runtime is in the program, so that
//     they may wrap its functions. build.sh lib does not set it.
//   - -fno-omit-frame-pointer: perf and Go's profiler walk frame pointers; a
//     fiber has only a small stack, so a wrong walk is soon off its end.
//   - -fstack-clash-protection: a frame larger than a guard page must touch the
//     guard on its way down, or it would step over it into the next stack. A clang
//     that lacks it for an architecture says the flag is unused; gcc and clang both
//     take the -Wno flag, known or not.
//   - -fasynchronous-unwind-tables: not the default on all architectures, and without
//     them a backtrace or an exception ends at the core's frames.
//   - -pthread: also brings libatomic where the compiler wants it (gcc on riscv64).
//   - --wrap=crosscall2: every exported Go function is entered through
//     crosscall2. Wrapped, it first leaves the fiber's stack. ELF linkers only.
//   - -lm: the switch by ucontext, where there is none in assembly, sets the rounding mode
//     by its C functions.
//
// Warnings are not asked for here: a newer compiler's would be shown to every
// user. build.sh lint asks for them, and makes them errors.

// #cgo CFLAGS: -std=gnu11 -O2 -DCFIBER_CGO -I${SRCDIR}/include -fno-omit-frame-pointer -fasynchronous-unwind-tables
// #cgo linux CFLAGS: -fstack-clash-protection -Wno-unused-command-line-argument
// #cgo linux freebsd netbsd openbsd dragonfly LDFLAGS: -Wl,--wrap=crosscall2 -pthread
// #cgo !amd64,!arm64,!darwin LDFLAGS: -lm
import "C"
