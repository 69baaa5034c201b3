// Package realredis is the subject "redis-server": the real one.
package realredis

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/subjects"
)

func init() {
	subjects.Register(&subjects.Subject{
		Name: "redis-server", About: "peer: redis-server", Needs: "redis-server",
		Workloads: map[string]subjects.Func{"redis": serve},
	})
}

// serve starts redis-server, with nothing that is kept on disk.
func serve(t *subjects.T) error {
	port := t.Int("port", 0)
	if port == 0 {
		var err error
		if port, err = freePort(); err != nil {
			return err
		}
	}
	cmd := exec.Command("redis-server", "--port", strconv.Itoa(port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--loglevel", "warning")
	cmd.Dir = os.TempDir()
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := untilListening(port, ended); err != nil {
		cmd.Process.Kill()
		return err
	}
	t.Say("LISTENING %d %d", port, cmd.Process.Pid)
	t.UntilClosed()
	cmd.Process.Kill()
	<-ended
	state := cmd.ProcessState
	t.Print("cpu", (state.UserTime() + state.SystemTime()).Seconds(), "s")
	return nil
}

// freePort is a port that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func untilListening(port int, ended <-chan error) error {
	address := "127.0.0.1:" + strconv.Itoa(port)
	for {
		conn, err := net.Dial("tcp4", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case err := <-ended:
			return fmt.Errorf("redis-server ended: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
