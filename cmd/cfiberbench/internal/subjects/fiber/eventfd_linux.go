//go:build cgo

package fiber

// #include "call.h"
import "C"

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/subjects"
	"golang.org/x/sys/unix"
)

func init() {
	subjects.Register(&subjects.Subject{
		Name:      "eventfd",
		About:     "limit: a goroutine asks a C thread by an eventfd and is woken by another through the netpoller",
		Workloads: map[string]subjects.Func{"wake": eventfdWake, "call": eventfdCall},
	})
}

// A questioner asks a thread in C, which blocks in read.
type questioner struct {
	ask    int
	answer *os.File // non-blocking, so that reading it waits in the netpoller
	buf    [8]byte
}

func newQuestioner() (*questioner, error) {
	ask, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	answer, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if e := C.bench_answerer(C.int(ask), C.int(answer)); e != 0 {
		return nil, syscall.Errno(e)
	}
	return &questioner{ask: ask, answer: os.NewFile(uintptr(answer), "answer")}, nil
}

func (q *questioner) question() error {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	if _, err := unix.Write(q.ask, one[:]); err != nil {
		return err
	}
	n, err := q.answer.Read(q.buf[:])
	if err == nil && n != len(q.buf) {
		err = fmt.Errorf("read %d bytes of an eventfd", n)
	}
	return err
}

func eventfdWake(t *subjects.T) error {
	if t.Text("mode") != "goroutine" {
		return subjects.UnsupportedError("only a goroutine and a thread wake each other")
	}
	q, err := newQuestioner()
	if err != nil {
		return err
	}
	n := max(t.N(), 2)
	begin := time.Now()
	for range n / 2 {
		if err := q.question(); err != nil {
			return err
		}
	}
	t.PerOp(time.Since(begin), n/2*2)
	return nil
}

func eventfdCall(t *subjects.T) error {
	load := subjects.NewCallLoad(t)
	if load.Sleep != 0 || load.Concurrency != 1 {
		return subjects.UnsupportedError("only immediate calls, one at a time")
	}
	q, err := newQuestioner()
	if err != nil {
		return err
	}
	return load.Run(q.question)
}
