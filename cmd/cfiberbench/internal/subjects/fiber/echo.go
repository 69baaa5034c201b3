//go:build cgo

package fiber

// #include "echo.h"
// #include <stdlib.h>
import "C"

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"github.com/cfiber/cfiber"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/subjects"
	"github.com/cfiber/cfiber/examples/redis/server"
)

func echo(t *subjects.T) error {
	e := (*C.struct_echo)(C.calloc(1, C.sizeof_struct_echo))
	e.port, e.crunch = C.int(t.Int("port", 0)), C.int(t.Int("crunch", 0))
	if errno := C.bench_echo_listen(e); errno != 0 {
		return syscall.Errno(errno)
	}
	rt, err := cfiber.New(cfiber.Options{Threads: t.Threads(runtime.NumCPU())})
	if err != nil {
		return err
	}
	if _, err := rt.Spawn(C.bench_echo_serve, unsafe.Pointer(e)); err != nil {
		return err
	}
	t.Say("LISTENING %d", int(e.port))
	t.UntilClosed()
	t.Print("cpu", subjects.CPUTime().Seconds(), "s")
	return rt.Close()
}

func redis(t *subjects.T) error {
	rt, err := cfiber.New(cfiber.Options{Threads: t.Threads(runtime.NumCPU())})
	if err != nil {
		return err
	}
	s, err := server.Listen(rt, "127.0.0.1:"+strconv.Itoa(t.Int("port", 0)), server.Options{})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	_, port, _ := strings.Cut(s.Addr().String(), ":")
	t.Say("LISTENING %s", port)
	t.UntilClosed()
	t.Print("cpu", subjects.CPUTime().Seconds(), "s")
	stop()
	if err := <-served; err != nil {
		return err
	}
	return rt.Close()
}
