// Package child runs subjects: programs that print what they measured.
package child

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// How a subject says that it does not do a workload, and that it does not know a parameter.
const (
	StatusUnsupported = 3
	StatusUnknown     = 2
)

// An UnsupportedError is that, with its reason.
type UnsupportedError struct{ Reason string }

func (e *UnsupportedError) Error() string { return e.Reason }

// A Child is a running subject.
type Child struct {
	cmd    *exec.Cmd
	cancel context.CancelFunc
	limit  time.Duration
	stdin  io.WriteCloser
	stderr tail
	lines  chan string
	ended  chan struct{}
	err    error // once ended
	expire *time.Timer
	late   bool // ended by expire; under mu
	mu     sync.Mutex
}

// Start starts a subject. It and all that it starts are killed when ctx is done, and when it has
// run for longer than limit.
func Start(ctx context.Context, argv []string, limit time.Duration) (*Child, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &Child{cancel: cancel, limit: limit, lines: make(chan string, 64), ended: make(chan struct{})}
	c.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.cmd.Stderr = &c.stderr
	ownGroup(c.cmd)
	c.cmd.WaitDelay = 2 * time.Second
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		cancel()
		return nil, err
	}
	// A pipe of our own: exec's is closed by Wait, whether or not all was read.
	r, w := io.Pipe()
	c.cmd.Stdout = w
	if err := c.cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	c.expire = time.AfterFunc(limit, c.kill)
	go c.read(r)
	go c.wait(w)
	return c, nil
}

func (c *Child) kill() {
	c.mu.Lock()
	c.late = true
	c.mu.Unlock()
	c.cancel()
}

func (c *Child) read(r io.Reader) {
	defer close(c.lines)
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		c.lines <- lines.Text()
	}
	io.Copy(io.Discard, r) // a line too long for the scanner must not block the child
}

func (c *Child) wait(stdout *io.PipeWriter) {
	err := c.cmd.Wait()
	c.expire.Stop()
	stdout.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = c.verdict(err)
	c.cancel()
	close(c.ended)
}

// verdict is what the end of the process means.
func (c *Child) verdict(err error) error {
	var exit *exec.ExitError
	said := c.stderr.String()
	switch {
	case err == nil:
		return nil
	case c.late:
		return fmt.Errorf("no end within %v%s", c.limit, because(said))
	case errors.As(err, &exit) && (exit.ExitCode() == StatusUnsupported || exit.ExitCode() == StatusUnknown):
		last := said[strings.LastIndexByte(said, '\n')+1:]
		if last == "" {
			last = "it does not do this"
		}
		return &UnsupportedError{last}
	default:
		return fmt.Errorf("%v%s", err, because(said))
	}
}

func because(stderr string) string {
	if stderr == "" {
		return ""
	}
	return ": " + stderr
}

// PID is the number of the process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Line returns the next line of output, or why there is none.
func (c *Child) Line() (string, error) {
	line, ok := <-c.lines
	if ok {
		return line, nil
	}
	<-c.ended
	if c.err != nil {
		return "", c.err
	}
	return "", io.EOF
}

// Expect reads a line that begins with word and returns what follows.
func (c *Child) Expect(word string) (string, error) {
	line, err := c.Line()
	if err == io.EOF {
		return "", fmt.Errorf("it ended without the line %s", word)
	}
	if err != nil {
		return "", err
	}
	rest, ok := strings.CutPrefix(line, word)
	if !ok {
		return "", fmt.Errorf("it printed %q, not %s", line, word)
	}
	return strings.TrimSpace(rest), nil
}

// Finish closes the child's stdin, waits for its end, and returns the lines that were left.
func (c *Child) Finish() ([]string, error) {
	c.stdin.Close()
	var lines []string
	for {
		line, err := c.Line()
		if err == io.EOF {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
}

// Kill ends the child at once.
func (c *Child) Kill() {
	c.cancel()
	for range c.lines {
		continue
	}
	<-c.ended
}

// A tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 2000

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - tailSize; extra > 0 {
		t.text = t.text[extra:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}
