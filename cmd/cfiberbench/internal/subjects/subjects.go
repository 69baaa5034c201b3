// Package subjects has the subjects that are part of cfiberbench, and what they share.
package subjects

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
)

// A Func does a workload and prints to t.
type Func func(t *T) error

// A Subject does workloads.
type Subject struct {
	Name, About string
	Workloads   map[string]Func
	Lacks       map[string]string // reasons, by workload that one might expect of it
	Needs       string            // a command that must be there: then it is one of the peers
}

// All are the subjects that have been registered.
var All []*Subject

// Register adds one. It is called by init functions.
func Register(s *Subject) { All = append(All, s) }

// An UnsupportedError is the reason why a subject does not do what it was asked for.
type UnsupportedError string

func (e UnsupportedError) Error() string { return string(e) }

// A T is one workload that a subject is asked to do.
type T struct {
	params bench.Params
	out    io.Writer
	in     io.Reader
}

// numbers are the parameters that are whole numbers.
var numbers = []string{
	"n", "fibers", "threads", "fanout", "port", "conns", "ms", "concurrency", "busy", "crunch",
}

// check makes sure that all parameters can be read, so that subjects need not.
func check(params bench.Params) error {
	for _, key := range numbers {
		if _, err := params.Int(key, 0); err != nil {
			return err
		}
	}
	_, err := params.Seconds("seconds", time.Second)
	return err
}

// Run lets the subject name do a workload.
func Run(name, workload string, params bench.Params) error {
	for _, s := range All {
		if s.Name != name {
			continue
		}
		f := s.Workloads[workload]
		if f == nil {
			reason := s.Lacks[workload]
			if reason == "" {
				reason = "there is no " + workload + " of " + name
			}
			return UnsupportedError(reason)
		}
		if err := check(params); err != nil {
			return err
		}
		t := &T{params: params, out: os.Stdout, in: os.Stdin}
		if t.Int("busy", 0) != 0 {
			keepBusy()
		}
		return f(t)
	}
	return fmt.Errorf("there is no subject %q", name)
}

// keepBusy starts a goroutine for each P that never ends and never waits.
func keepBusy() {
	for range runtime.GOMAXPROCS(0) {
		go func() {
			for n := uint64(1); n != 0; n += 2 {
				continue
			}
		}()
	}
}

// Int returns a parameter, or a default.
func (t *T) Int(key string, missing int) int {
	n, _ := t.params.Int(key, missing) // see check
	return n
}

// N is how much to do.
func (t *T) N() int { return max(t.Int("n", 1000), 1) }

// Threads is how many threads or Ps to use.
func (t *T) Threads(missing int) int { return max(t.Int("threads", missing), 1) }

// Duration is how long to go on.
func (t *T) Duration() time.Duration {
	d, _ := t.params.Seconds("seconds", time.Second)
	return d
}

// Text returns a parameter as it is.
func (t *T) Text(key string) string { return t.params.Get(key) }

// Print prints a metric.
func (t *T) Print(metric string, value float64, unit string) {
	fmt.Fprintf(t.out, "%s %g %s\n", metric, value, unit)
}

// Say prints a line of another kind.
func (t *T) Say(format string, args ...any) { fmt.Fprintf(t.out, format+"\n", args...) }

// PerOp prints the time of each of n operations that took elapsed together.
func (t *T) PerOp(elapsed time.Duration, n int) {
	t.Print("time", float64(elapsed.Nanoseconds())/float64(n), "ns/op")
}

// UntilClosed waits until stdin is closed.
func (t *T) UntilClosed() { io.Copy(io.Discard, bufio.NewReader(t.in)) }
