package golang

import (
	"net"
	"runtime"
	"strconv"
	"time"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/subjects"
)

// echo is a goroutine for each connection, with a buffer that is on its stack.
func echo(t *subjects.T) error {
	runtime.GOMAXPROCS(t.Threads(runtime.NumCPU()))
	l, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(t.Int("port", 0)))
	if err != nil {
		return err
	}
	crunch := t.Int("crunch", 0) != 0
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn, crunch)
		}
	}()
	t.Say("LISTENING %d", l.Addr().(*net.TCPAddr).Port)
	t.UntilClosed()
	t.Print("cpu", subjects.CPUTime().Seconds(), "s")
	return nil
}

func serve(conn net.Conn, crunch bool) {
	defer conn.Close()
	var buf [subjects.EchoBuffer]byte
	for {
		n, err := conn.Read(buf[:])
		if err != nil {
			return
		}
		if crunch && buf[0] == subjects.CrunchByte {
			for begin := time.Now(); time.Since(begin) < subjects.CrunchTime; {
				continue
			}
		}
		if _, err := conn.Write(buf[:n]); err != nil {
			return
		}
	}
}
