//go:build cgo

package server

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cfiber/cfiber"
	"github.com/cfiber/cfiber/examples/redis/loadgen"
)

// shortTimeout is for what the server is to give up soon. A test waits until it
// has done so.
const shortTimeout = 50 * time.Millisecond

func TestManyConnections(t *testing.T) {
	s := start(t, Options{})
	result, err := loadgen.Run(context.Background(), loadgen.Config{
		Addr:    s.Addr().String(),
		Conns:   manyConns(2000),
		Batches: 20,
		Seed:    rand.Uint64(),
		Timeout: patience,
	})
	if err != nil {
		t.Fatalf("%d connections failed, among them: %v", result.Errors, err)
	}
	t.Logf("%d connections: %d requests, %.0f/s, p50 %v, p99 %v", result.Conns, result.Requests, result.Rate(), result.P50, result.P99)
	waitIdle(t, s)
	if n := s.Stats().Keys; n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// The handlers hold nothing over a wait that belongs to a thread.
func TestMigratingFibers(t *testing.T) {
	s := listenOn(t, newRuntime(t, cfiber.Options{Threads: 4, Migrate: true}), Options{})
	serve(t, s)
	result, err := loadgen.Run(context.Background(), loadgen.Config{
		Addr:    s.Addr().String(),
		Conns:   manyConns(200),
		Batches: 100,
		Seed:    rand.Uint64(),
		Timeout: patience,
	})
	if err != nil {
		t.Fatalf("%d connections failed, among them: %v", result.Errors, err)
	}
	waitIdle(t, s)
}

// Values larger than the buffers, from several connections.
func TestLargeValues(t *testing.T) {
	s := start(t, Options{})
	result, err := loadgen.Run(context.Background(), loadgen.Config{
		Addr:      s.Addr().String(),
		Conns:     20,
		Batches:   scaled(200),
		ValueSize: 100_000,
		Seed:      rand.Uint64(),
		Timeout:   patience,
	})
	if err != nil {
		t.Fatalf("%d connections failed, among them: %v", result.Errors, err)
	}
	waitIdle(t, s)
}

func TestConnectionCount(t *testing.T) {
	s := start(t, Options{})
	var conns []*testConn
	for i := range manyConns(500) {
		c := dial(t, s)
		c.send("PING\r\n")
		c.expect("+PONG\r\n")
		conns = append(conns, c)
		if n := s.Stats().Conns; n != i+1 {
			t.Fatalf("Stats count %d connections, want %d", n, i+1)
		}
	}
	for _, c := range conns {
		c.Close()
	}
	waitIdle(t, s)
	if n := s.Stats().Accepted; n != uint64(len(conns)+1) {
		t.Errorf("Stats count %d accepted connections, want %d", n, len(conns)+1)
	}
}

func TestMaxConns(t *testing.T) {
	s := start(t, Options{MaxConns: 2})
	var conns []*testConn
	for range 2 {
		c := dial(t, s)
		c.send("PING\r\n")
		c.expect("+PONG\r\n")
		conns = append(conns, c)
	}
	refused := dial(t, s)
	refused.expect("-ERR max number of clients reached\r\n")
	refused.expectEnd()
	for _, c := range conns {
		c.send("PING\r\n")
		c.expect("+PONG\r\n")
		c.Close()
	}
	waitIdle(t, s)
	if n := s.Stats().Refused; n != 1 {
		t.Errorf("Stats count %d refused connections, want 1", n)
	}
}

// served checks that s serves others while something goes on.
func served(t *testing.T, s *Server) {
	t.Helper()
	c := dial(t, s)
	c.send("PING\r\n")
	c.expect("+PONG\r\n")
	c.Close()
}

// A client that stalls in the middle of a request is dropped.
func TestStalledRequests(t *testing.T) {
	s := start(t, Options{IOTimeout: shortTimeout})
	frame := request("SET", "key", "value")
	var conns []*testConn
	for i := 1; i < len(frame); i++ {
		c := dial(t, s)
		c.send(frame[:i])
		conns = append(conns, c)
	}
	served(t, s)
	for _, c := range conns {
		c.expectEnd()
		c.Close()
	}
	waitIdle(t, s)
}

// A byte now and then does not buy a request more time.
func TestDrippingRequest(t *testing.T) {
	s := start(t, Options{IOTimeout: shortTimeout})
	c := dial(t, s)
	c.send("*2\r\n$4\r\nECHO\r\n$1000000\r\n")
	drip := time.NewTicker(shortTimeout / 10)
	defer drip.Stop()
	for {
		if _, err := io.WriteString(c, "x"); err != nil {
			break // closed, and the byte before this one was told so
		}
		<-drip.C
	}
	c.Close()
	waitIdle(t, s)
}

func TestIdleTimeout(t *testing.T) {
	s := start(t, Options{IdleTimeout: shortTimeout})
	silent, once := dial(t, s), dial(t, s)
	once.send("PING\r\n")
	once.expect("+PONG\r\n")
	once.expectEnd()
	silent.expectEnd()
	silent.Close()
	once.Close()
	waitIdle(t, s)
}

// Without an idle timeout a connection at rest outlives the other one.
func TestNoIdleTimeout(t *testing.T) {
	s := start(t, Options{IOTimeout: shortTimeout})
	resting := dial(t, s)
	resting.send("PING\r\n")
	resting.expect("+PONG\r\n")

	stalled := dial(t, s)
	stalled.send("*1\r\n")
	stalled.expectEnd() // so the timeout has passed since

	resting.send("PING\r\n")
	resting.expect("+PONG\r\n")
	resting.Close()
	stalled.Close()
	waitIdle(t, s)
}

// Clients that send and never read are dropped once nothing fits any more.
func TestRepliesNotRead(t *testing.T) {
	for name, in := range map[string]string{
		"echo":  strings.Repeat(request("ECHO", strings.Repeat("x", 1000)), 100),
		"large": request("GET", "large"),
		"small": strings.Repeat("PING\r\n", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, Options{IOTimeout: shortTimeout})
			setup := dial(t, s)
			setup.send(request("SET", "large", strings.Repeat("x", mib)))
			setup.expect(ok)
			setup.Close()

			var wg sync.WaitGroup
			for range 4 {
				c := dial(t, s)
				wg.Go(func() {
					for {
						if _, err := io.WriteString(c, in); err != nil {
							if errors.Is(err, os.ErrDeadlineExceeded) {
								t.Errorf("the server does not close the connection: %v", err)
							}
							break
						}
					}
					c.Close()
				})
			}
			served(t, s)
			wg.Wait()
			waitIdle(t, s)
		})
	}
}

func TestHalfRequestThenClose(t *testing.T) {
	s := start(t, Options{})
	frame := request("SET", "key", "value")
	for i := range len(frame) {
		c := dial(t, s)
		c.send(frame[:i])
		c.CloseWrite()
		c.expectEnd()
		c.Close()

		c = dial(t, s)
		c.send(frame[:i])
		c.Close()
	}
	waitIdle(t, s)
	c := dial(t, s)
	c.send(request("GET", "key"))
	c.expect(null)
}

func TestResetInRequest(t *testing.T) {
	s := start(t, Options{})
	frame := request("SET", "key", strings.Repeat("value", 1000))
	for i := 0; i < len(frame); i += 1 + len(frame)/200 {
		c := dial(t, s)
		c.send("PING\r\n" + frame[:i])
		c.SetLinger(0)
		if i%2 == 0 {
			c.expect("+PONG\r\n") // else the reset may come before the reply, or before the accept
		}
		c.Close()
	}
	waitIdle(t, s)
}

// Resets of clients that are being sent to.
func TestResetInReply(t *testing.T) {
	s := start(t, Options{})
	setup := dial(t, s)
	setup.send(request("SET", "large", strings.Repeat("x", mib)))
	setup.expect(ok)
	setup.Close()
	for range scaled(50) {
		c := dial(t, s)
		c.send(strings.Repeat(request("GET", "large"), 20))
		c.expect("$1048576\r\n")
		c.SetLinger(0)
		c.Close()
	}
	waitIdle(t, s)
}

// Large claims are refused when they are made, and cost nothing.
func TestLargeClaims(t *testing.T) {
	s := start(t, Options{})
	var wg sync.WaitGroup
	for i := range scaled(200) {
		c := dial(t, s)
		claim, message := "*2\r\n$4\r\nECHO\r\n$1000000000\r\n", "invalid bulk length"
		if i%2 == 0 {
			claim, message = "*1000000000\r\n", "invalid multibulk length"
		}
		wg.Go(func() {
			c.send(claim)
			c.expect("-ERR Protocol error: " + message + "\r\n")
			c.expectEnd()
			c.Close()
		})
	}
	wg.Wait()
	waitIdle(t, s)
}

func TestGarbage(t *testing.T) {
	s := start(t, Options{IOTimeout: shortTimeout})
	var wg sync.WaitGroup
	for i := range scaled(500) {
		garbage := make([]byte, 1+i*20)
		var seed [32]byte
		seed[0], seed[1] = byte(i), byte(i>>8)
		rand.NewChaCha8(seed).Read(garbage)
		if i%3 == 0 {
			garbage[0] = '*'
		}
		c := dial(t, s)
		wg.Go(func() {
			c.Write(garbage) // may fail: the server need not take all of it
			c.CloseWrite()
			c.awaitEnd()
			c.Close()
		})
	}
	wg.Wait()
	waitIdle(t, s)
}

// Connections in every state end when the server closes.
func TestCloseWithConnections(t *testing.T) {
	s := start(t, Options{})
	setup := dial(t, s)
	setup.send(request("SET", "large", strings.Repeat("x", mib)))
	setup.expect(ok)

	var conns []*testConn
	for range 20 {
		idle, half, unread, quit := dial(t, s), dial(t, s), dial(t, s), dial(t, s)
		idle.send("PING\r\n")
		idle.expect("+PONG\r\n")
		half.send("PING\r\n*1\r\n$4\r\n")
		half.expect("+PONG\r\n")
		unread.send(strings.Repeat(request("GET", "large"), 20))
		unread.expect("$1048576\r\n")
		quit.send("QUIT\r\n") // the server lingers
		quit.expect(ok)
		conns = append(conns, idle, half, unread, quit)
	}
	s.Close()
	for _, c := range conns {
		c.awaitEnd()
	}
	if n := s.Stats().Conns; n != 0 {
		t.Errorf("%d connections are left", n)
	}
	if _, err := net.Dial("tcp", s.Addr().String()); err == nil {
		t.Error("the server still listens")
	}
	if err := s.Serve(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("Serve after Close: %v", err)
	}
}

func TestServeContext(t *testing.T) {
	s := listen(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	c := dial(t, s)
	c.send("PING\r\n")
	c.expect("+PONG\r\n")
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve: %v", err)
	}
	c.awaitEnd()
}

func TestCloseWithoutServe(t *testing.T) {
	s := listen(t, Options{})
	s.Close()
	s.Close()
	if _, err := net.Dial("tcp", s.Addr().String()); err == nil {
		t.Error("the server still listens")
	}
}

func TestListenFails(t *testing.T) {
	s := listen(t, Options{})
	if _, err := Listen(newRuntime(t, cfiber.Options{}), s.Addr().String(), Options{}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("Listen on an address in use: %v", err)
	}
}

// Out of descriptors, the server waits for some instead of giving up or spinning.
func TestDescriptorsExhausted(t *testing.T) {
	s := listen(t, Options{})
	served := make([]*testConn, 10)
	for i := range served {
		served[i] = dial(t, s) // into the backlog
		served[i].send("PING\r\n")
	}

	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	lowest, err := syscall.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.Close(lowest)
	exhausted := limit
	exhausted.Cur = 0
	for range lowest {
		exhausted.Cur++ // a signed type on some systems
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &exhausted); err != nil {
		t.Fatal(err)
	}
	restore := sync.OnceFunc(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
	})
	defer restore()

	serve(t, s)
	waitFor(t, "a pause in accepting", func() bool { return s.Stats().Backoffs > 1 })
	if n := s.Stats().Accepted; n != 0 {
		t.Errorf("%d connections were accepted without a descriptor", n)
	}
	restore()
	for _, c := range served {
		c.expect("+PONG\r\n")
		c.Close()
	}
	waitIdle(t, s)
}

// Two servers on one runtime do not share anything.
func TestTwoServers(t *testing.T) {
	rt := newRuntime(t, cfiber.Options{})
	var conns []*testConn
	for _, name := range []string{"a", "b"} {
		s := listenOn(t, rt, Options{})
		serve(t, s)
		c := dial(t, s)
		c.send(request("SET", "name", name))
		c.expect(ok)
		conns = append(conns, c)
	}
	for i, name := range []string{"a", "b"} {
		conns[i].send(request("GET", "name"))
		conns[i].expect(bulk(name))
	}
}

func BenchmarkPing(b *testing.B) {
	s := start(b, Options{})
	c := dial(b, s)
	for b.Loop() {
		c.send("PING\r\n")
		c.expect("+PONG\r\n")
	}
}
