//go:build !linux

package generate

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/subjects"
)

// run has a goroutine for each connection.
func (l *load) run() (time.Duration, error) {
	var measured, over atomic.Bool
	var requests atomic.Uint64
	var ended sync.WaitGroup
	failed := make(chan error, l.conns)
	for i := range l.conns {
		c, err := net.Dial("tcp4", "127.0.0.1:"+strconv.Itoa(l.port))
		if err != nil {
			return 0, fmt.Errorf("connection %d of %d: %w", i+1, l.conns, err)
		}
		defer c.Close()
		ended.Go(func() {
			message := l.message(i)
			var answer [Size]byte
			for !over.Load() {
				sent := time.Now()
				if err := exchange(c, message[:], answer[:]); err != nil {
					failed <- err
					return
				}
				if measured.Load() {
					requests.Add(1)
					if !l.crunches(i) {
						l.latency.Add(time.Since(sent), 1)
					}
				}
			}
		})
	}
	time.Sleep(l.warm)
	fmt.Fprintln(l.out, "BEGIN")
	before := subjects.CPUTime()
	measured.Store(true)
	time.Sleep(l.duration)
	measured.Store(false)
	used := subjects.CPUTime() - before
	fmt.Fprintln(l.out, "END")
	over.Store(true)
	ended.Wait()
	l.requests = requests.Load()
	select {
	case err := <-failed:
		return 0, err
	default:
		return used, nil
	}
}

func exchange(c net.Conn, message, answer []byte) error {
	if _, err := c.Write(message); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, answer); err != nil {
		return err
	}
	if !bytes.Equal(answer, message) {
		return fmt.Errorf("sent %q and got %q", message, answer)
	}
	return nil
}
