//go:build cgo

package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cfiber/cfiber"
)

// patience is how long a test waits for what must happen before it gives up.
const patience = 60 * time.Second

var raceEnabled bool

// scaled is n, or less of it where all takes longer.
func scaled(n int) int {
	switch {
	case raceEnabled:
		return max(n/10, 1)
	case testing.Short():
		return max(n/5, 1)
	default:
		return n
	}
}

// manyConns is how many connections there can be at once, up to n, with both
// ends in this process.
func manyConns(n int) int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil && uint64(limit.Cur) < 1<<20 {
		n = min(n, (int(limit.Cur)-200)/2)
	}
	return scaled(n)
}

func newRuntime(t testing.TB, opts cfiber.Options) *cfiber.Runtime {
	t.Helper()
	rt, err := cfiber.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		// Not cancelled: a fiber that is left over would be waited for in vain.
		if err := rt.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := rt.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return rt
}

func listen(t testing.TB, opts Options) *Server {
	t.Helper()
	return listenOn(t, newRuntime(t, cfiber.Options{}), opts)
}

func listenOn(t testing.TB, rt *cfiber.Runtime, opts Options) *Server {
	t.Helper()
	s, err := Listen(rt, "127.0.0.1:0", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if n := s.Stats().Conns; n != 0 {
			t.Errorf("%d connections are left after Close", n)
		}
	})
	return s
}

func serve(t testing.TB, s *Server) {
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.Background()) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != nil && !errors.Is(err, ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
}

// start returns a server that serves, and is closed and checked at the end.
func start(t testing.TB, opts Options) *Server {
	t.Helper()
	s := listen(t, opts)
	serve(t, s)
	return s
}

// waitFor waits until cond holds.
func waitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !cond(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited for %s in vain", what)
		}
	}
}

// waitIdle waits until no connection is left, then checks that s still serves.
func waitIdle(t testing.TB, s *Server) {
	t.Helper()
	waitFor(t, "the connections to end", func() bool { return s.Stats().Conns == 0 })
	c := dial(t, s)
	c.send("PING\r\n")
	c.expect("+PONG\r\n")
	c.Close()
	waitFor(t, "the last connection to end", func() bool { return s.Stats().Conns == 0 })
}

type testConn struct {
	*net.TCPConn
	t  testing.TB
	br *bufio.Reader
}

// dial connects. Every operation on the connection fails once patience is up.
func dial(t testing.TB, s *Server) *testConn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return &testConn{conn.(*net.TCPConn), t, bufio.NewReader(conn)}
}

func (c *testConn) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		c.t.Fatalf("sending %.40q: %v", s, err)
	}
}

// expect reads just as many bytes as want has.
func (c *testConn) expect(want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(c.br, got)
	if string(got[:n]) != want {
		c.t.Fatalf("got %s and %v, want %s", short(string(got[:n])), err, short(want))
	}
}

// expectEnd checks that the server closes the connection and says no more.
func (c *testConn) expectEnd() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.br); err != nil || len(rest) > 0 {
		c.t.Fatalf("got %s and %v, want the end", short(string(rest)), err)
	}
}

// awaitEnd waits until the server has closed or reset the connection.
func (c *testConn) awaitEnd() {
	c.t.Helper()
	var timeout net.Error
	if _, err := io.Copy(io.Discard, c.br); errors.As(err, &timeout) && timeout.Timeout() {
		c.t.Fatalf("the server does not close the connection: %v", err)
	}
}

func short(s string) string {
	if len(s) > 200 {
		return strconv.Quote(s[:200]) + "..."
	}
	return strconv.Quote(s)
}

// request is a request as a client library sends it.
func request(args ...string) string {
	var b strings.Builder
	b.WriteString("*" + strconv.Itoa(len(args)) + "\r\n")
	for _, arg := range args {
		b.WriteString(bulk(arg))
	}
	return b.String()
}

func bulk(s string) string { return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }
