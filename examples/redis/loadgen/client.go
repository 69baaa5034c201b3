package loadgen

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

const ownKeys = 16

// A client is one connection with what it knows of its keys.
type client struct {
	*run
	id   int
	conn net.Conn
	br   *bufio.Reader
	rng  *rand.Rand

	keys    [ownKeys]string
	values  [ownKeys][]byte // nil: no such key
	counter int64           // of the key counterKey
	seen    [sharedKeys]int64

	// The batch: what to send, and the replies to expect. Those of shared
	// counters are not known; they come after want[:at].
	send   []byte
	want   []byte
	shared []sharedReply
	count  int
}

type sharedReply struct{ at, key int }

func newClient(r *run, conn net.Conn, id int) *client {
	c := &client{
		run:  r,
		id:   id,
		conn: conn,
		br:   bufio.NewReader(conn),
		rng:  rand.New(rand.NewPCG(r.cfg.Seed, uint64(id))),
	}
	for i := range c.keys {
		c.keys[i] = fmt.Sprintf("loadgen:%d:%d:%d", r.cfg.Seed, id, i)
	}
	return c
}

func (c *client) counterKey() string {
	return fmt.Sprintf("loadgen:%d:%d:counter", c.cfg.Seed, c.id)
}

func (c *client) sharedKey(i int) string {
	return fmt.Sprintf("loadgen:%d:shared:%d", c.cfg.Seed, i)
}

// work sends batches until it is time to stop, then takes its leave.
func (c *client) work() error {
	c.conn.SetDeadline(time.Now().Add(c.cfg.Duration + c.cfg.Timeout))
	counterKey := c.counterKey()
	for n := 0; !c.stop.Load() && (c.cfg.Batches <= 0 || n < c.cfg.Batches); n++ {
		for range 1 + c.rng.IntN(c.cfg.Pipeline) {
			if len(c.send)+len(c.want) > maxBatchBytes {
				break
			}
			c.random(counterKey)
		}
		count, start := c.count, time.Now()
		if err := c.exchange(); err != nil {
			return err
		}
		c.latencies.Add(time.Since(start), count)
		c.requests.Add(uint64(count))
	}
	return c.quit(counterKey)
}

// random adds a command to the batch and foresees its reply.
func (c *client) random(counterKey string) {
	i := c.rng.IntN(ownKeys)
	key, value := c.keys[i], c.values[i]
	switch op := c.rng.IntN(32); {
	case op < 10:
		c.values[i] = c.randomValue()
		c.command("+OK\r\n", "SET", key, c.values[i])
	case op < 20:
		c.command("", "GET", key)
		c.expectBulk(value)
	case op < 24:
		value = c.randomValue()
		c.command("", "ECHO", value)
		c.expectBulk(value)
	case op < 27:
		c.counter++
		c.command("", "INCR", counterKey)
		c.expectInt(c.counter)
	case op < 28:
		c.incrShared(c.rng.IntN(sharedKeys))
	case op < 29 && value != nil && !mayBeInteger(value):
		c.command("-ERR value is not an integer or out of range\r\n", "INCR", key)
	default:
		c.del(i, (i+1)%ownKeys)
	}
}

// randomValue is never nil, and may hold any bytes.
func (c *client) randomValue() []byte {
	n := c.rng.IntN(c.cfg.ValueSize + 1)
	at := c.rng.IntN(len(c.noise) - n)
	return c.noise[at : at+n : at+n]
}

func mayBeInteger(value []byte) bool {
	return len(value) > 0 && (value[0] == '-' || '0' <= value[0] && value[0] <= '9')
}

func (c *client) incrShared(key int) {
	c.command("", "INCR", c.sharedKey(key))
	c.shared = append(c.shared, sharedReply{len(c.want), key})
	c.run.shared[key].Add(1)
}

func (c *client) del(i, j int) {
	n := int64(0)
	for _, k := range []int{i, j} {
		if c.values[k] != nil {
			n++
		}
		c.values[k] = nil
	}
	c.command("", "DEL", c.keys[i], c.keys[j])
	c.expectInt(n)
}

// quit deletes what is left and checks that the server closes the connection.
func (c *client) quit(counterKey string) error {
	for i := 0; i < ownKeys; i += 2 {
		c.del(i, i+1)
	}
	c.command("", "DEL", counterKey)
	c.expectInt(min(c.counter, 1))
	c.command("+OK\r\n", "QUIT")
	if err := c.exchange(); err != nil {
		return err
	}
	if n, err := c.br.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return fmt.Errorf("after QUIT: got %d bytes and %v, want the end", n, err)
	}
	return nil
}

// command adds a command, whose arguments are strings or byte slices, and the
// reply to expect, unless that is empty.
func (c *client) command(reply string, args ...any) {
	c.send = appendLine(c.send, '*', int64(len(args)))
	for _, arg := range args {
		switch arg := arg.(type) {
		case string:
			c.send = appendLine(c.send, '$', int64(len(arg)))
			c.send = append(c.send, arg...)
		case []byte:
			c.send = appendLine(c.send, '$', int64(len(arg)))
			c.send = append(c.send, arg...)
		}
		c.send = append(c.send, "\r\n"...)
	}
	c.want = append(c.want, reply...)
	c.count++
}

func (c *client) expectInt(n int64) { c.want = appendLine(c.want, ':', n) }

func (c *client) expectBulk(value []byte) {
	if value == nil {
		c.want = append(c.want, "$-1\r\n"...)
		return
	}
	c.want = appendLine(c.want, '$', int64(len(value)))
	c.want = append(c.want, value...)
	c.want = append(c.want, "\r\n"...)
}

func appendLine(b []byte, marker byte, n int64) []byte {
	b = append(b, marker)
	b = strconv.AppendInt(b, n, 10)
	return append(b, "\r\n"...)
}

// exchange sends the batch and checks the replies.
func (c *client) exchange() error {
	defer func() {
		c.send, c.want, c.shared, c.count = c.send[:0], c.want[:0], c.shared[:0], 0
	}()
	if _, err := c.conn.Write(c.send); err != nil {
		return err
	}
	at := 0
	for _, reply := range c.shared {
		if err := c.expect(c.want[at:reply.at]); err != nil {
			return err
		}
		at = reply.at
		n, err := readCounter(c.br)
		if err != nil {
			return err
		}
		if n <= c.seen[reply.key] {
			return fmt.Errorf("wrong reply: a shared counter went from %d to %d", c.seen[reply.key], n)
		}
		c.seen[reply.key] = n
	}
	return c.expect(c.want[at:])
}

// expect reads and compares as it goes, so that a wrong reply is reported as
// such even if it is shorter than the right one.
func (c *client) expect(want []byte) error {
	for at := 0; at < len(want); {
		if _, err := c.br.Peek(1); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("instead of %.60q: %w", want[at:], err)
		}
		n := min(c.br.Buffered(), len(want)-at)
		got, _ := c.br.Peek(n)
		if !bytes.Equal(got, want[at:at+n]) {
			return mismatch(append(want[:at:at], got...), want)
		}
		at += n
		c.br.Discard(n)
	}
	return nil
}
