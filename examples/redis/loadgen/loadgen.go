// Package loadgen is a Redis client that drives a server with many connections
// at once and checks every byte of every reply.
//
// Each connection sends batches of random commands on keys of its own, whose
// values it knows, so it knows each reply beforehand. Counters shared by all
// connections check that commands are atomic: no two increments may return the
// same number, and none may be lost.
package loadgen

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cfiber/cfiber/internal/histogram"
)

// Config says what to do. Zero values stand for the defaults.
type Config struct {
	Addr      string
	Conns     int           // connections at once; 1
	Duration  time.Duration // how long to go on; 0: until Batches
	Batches   int           // batches sent on each connection; 0: until Duration
	Pipeline  int           // a batch has 1 to so many commands; 16
	ValueSize int           // a value has 0 to so many bytes; 64
	Seed      uint64        // of all random choices, and a part of all keys
	Timeout   time.Duration // for connecting, and for what is awaited at the end; 30 s

	// Progress, if set, is called a few times a second once all are connected.
	Progress func(requests uint64, elapsed time.Duration)
}

// Result is what a run came to. A request's latency is that of its batch: from
// sending the first byte to having read the last.
type Result struct {
	Conns         int // connections that were open at once
	Requests      uint64
	Elapsed       time.Duration
	P50, P99, Max time.Duration
	Errors        int // connections that failed or had a wrong reply
}

// Rate is the number of requests per second.
func (r Result) Rate() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Requests) / r.Elapsed.Seconds()
}

const (
	dialsAtOnce   = 64
	maxBatchBytes = 32 << 10 // what may be in flight before replies are read
	sharedKeys    = 4
	progressEvery = 250 * time.Millisecond
)

// Run connects all, then starts all together. The error joins a few of those
// that connections ended with, if any did.
func Run(ctx context.Context, cfg Config) (Result, error) {
	cfg.Conns = cmp.Or(cfg.Conns, 1)
	cfg.Pipeline = cmp.Or(cfg.Pipeline, 16)
	cfg.ValueSize = cmp.Or(cfg.ValueSize, 64)
	cfg.Timeout = cmp.Or(cfg.Timeout, 30*time.Second)
	if cfg.Duration <= 0 && cfg.Batches <= 0 {
		return Result{}, errors.New("loadgen: neither Duration nor Batches is set")
	}

	r := &run{cfg: cfg, noise: noise(cfg.Seed, cfg.ValueSize)}
	clients, err := r.connect(ctx)
	defer func() {
		for _, c := range clients {
			if c != nil {
				c.conn.Close()
			}
		}
	}()
	if err != nil {
		return Result{}, err
	}

	start := time.Now()
	r.work(ctx, clients)
	result := Result{
		Conns:    len(clients),
		Requests: r.requests.Load(),
		Elapsed:  time.Since(start),
		P50:      r.latencies.Quantile(0.50),
		P99:      r.latencies.Quantile(0.99),
		Max:      r.latencies.Quantile(1),
	}
	if r.errors.count == 0 {
		if err := r.checkShared(); err != nil {
			r.errors.add(err)
		}
	}
	result.Errors = r.errors.count
	return result, errors.Join(r.errors.first...)
}

// A run is what its clients share.
type run struct {
	cfg       Config
	noise     []byte // values are pieces of it
	stop      atomic.Bool
	requests  atomic.Uint64
	shared    [sharedKeys]atomic.Int64 // increments made
	latencies histogram.Histogram
	errors    errorList
}

// noise returns random bytes for values of up to size bytes.
func noise(seed uint64, size int) []byte {
	var key [32]byte
	copy(key[:], strconv.FormatUint(seed, 10))
	b := make([]byte, 64<<10+size)
	rand.NewChaCha8(key).Read(b)
	return b
}

func (r *run) connect(ctx context.Context) ([]*client, error) {
	clients := make([]*client, r.cfg.Conns)
	var errs errorList
	var wg sync.WaitGroup
	room := make(chan struct{}, dialsAtOnce)
	for i := range clients {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			c, err := r.dial(ctx, i)
			if err != nil {
				errs.add(err)
				return
			}
			clients[i] = c
		})
	}
	wg.Wait()
	if errs.count > 0 {
		return clients, fmt.Errorf("loadgen: %d of %d connections failed: %w",
			errs.count, len(clients), errors.Join(errs.first...))
	}
	return clients, nil
}

// dial connects and has one reply, so that the server is known to serve it.
func (r *run) dial(ctx context.Context, id int) (*client, error) {
	dialer := net.Dialer{Timeout: r.cfg.Timeout}
	conn, err := dialer.DialContext(ctx, "tcp", r.cfg.Addr)
	if err != nil {
		return nil, err
	}
	c := newClient(r, conn, id)
	conn.SetDeadline(time.Now().Add(r.cfg.Timeout))
	c.command("+PONG\r\n", "PING")
	if err := c.exchange(); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func (r *run) work(ctx context.Context, clients []*client) {
	start := time.Now()
	if r.cfg.Duration > 0 {
		defer time.AfterFunc(r.cfg.Duration, func() { r.stop.Store(true) }).Stop()
	}
	defer context.AfterFunc(ctx, func() { r.stop.Store(true) })()

	done := make(chan struct{})
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			if err := c.work(); err != nil {
				r.errors.add(fmt.Errorf("connection %d: %w", c.id, err))
			}
		})
	}
	go func() {
		wg.Wait()
		close(done)
	}()
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			if r.cfg.Progress != nil {
				r.cfg.Progress(r.requests.Load(), time.Since(start))
			}
		}
	}
}

// checkShared compares the shared counters with the increments made.
func (r *run) checkShared() error {
	c, err := r.dial(context.Background(), -1)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	for i := range r.shared {
		want := strconv.FormatInt(r.shared[i].Load(), 10)
		key := c.sharedKey(i)
		if want == "0" {
			c.command("$-1\r\n", "GET", key)
		} else {
			c.command(bulk(want), "GET", key)
			c.command(":1\r\n", "DEL", key)
		}
	}
	if err := c.exchange(); err != nil {
		return fmt.Errorf("shared counters: %w", err)
	}
	return nil
}

// errorList keeps the first few errors and counts all.
type errorList struct {
	mu    sync.Mutex
	count int
	first []error
}

func (l *errorList) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if len(l.first) < 3 {
		l.first = append(l.first, err)
	}
}

func bulk(s string) string { return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }

// mismatch describes the first difference of a reply.
func mismatch(got, want []byte) error {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	from := bytes.LastIndexByte(want[:i], '\n') + 1
	cut := func(b []byte) []byte { return b[from:min(len(b), i+40)] }
	return fmt.Errorf("wrong reply: got %q, want %q", cut(got), cut(want))
}

// readCounter reads an integer reply.
func readCounter(br *bufio.Reader) (int64, error) {
	line, err := br.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 4 || line[0] != ':' || line[len(line)-2] != '\r' {
		return 0, fmt.Errorf("wrong reply: got %q, want an integer", line)
	}
	return strconv.ParseInt(string(line[1:len(line)-2]), 10, 64)
}
