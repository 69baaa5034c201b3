// Package generate puts load on echo servers, from a process of its own.
package generate

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/subjects"
	"github.com/cfiber/cfiber/internal/histogram"
)

// Size is how many bytes a message has.
const Size = 64

// CrunchEvery is how many connections there are to one that makes the server compute.
const CrunchEvery = 100

// load is what to do, and what came of it.
type load struct {
	port, conns int
	crunch      bool
	warm        time.Duration // before it is measured
	duration    time.Duration // for which it is

	latency  histogram.Histogram // of the messages that are not computed upon
	requests uint64              // all that were answered while it was measured
	out      io.Writer
}

// Echo sends messages over many connections, on each the next when the last has come back.
// It prints BEGIN and END around what is measured, and then the metrics.
func Echo(params bench.Params, out io.Writer) error {
	l := &load{out: out}
	var errs [3]error
	l.port, errs[0] = params.Int("port", 0)
	l.conns, errs[1] = params.Int("conns", 1)
	crunch, err := params.Int("crunch", 0)
	errs[2] = err
	l.crunch = crunch != 0
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	if l.duration, err = params.Seconds("seconds", time.Second); err != nil {
		return err
	}
	l.warm = l.duration / 5
	if l.port < 1 || l.conns < 1 {
		return fmt.Errorf("a port and at least one connection are wanted")
	}
	used, err := l.run()
	if err != nil {
		return err
	}
	l.print(used)
	return nil
}

// crunches reports whether the server computes on the messages of connection i.
func (l *load) crunches(i int) bool { return l.crunch && i%CrunchEvery == 0 }

func (l *load) message(i int) (m [Size]byte) {
	for j := range m {
		m[j] = byte('a' + (i+j)%26)
	}
	if l.crunches(i) {
		m[0] = subjects.CrunchByte
	}
	return m
}

func (l *load) print(used time.Duration) {
	q := func(q float64) float64 { return float64(l.latency.Quantile(q).Nanoseconds()) }
	fmt.Fprintf(l.out, "requests %d count\n", l.requests)
	fmt.Fprintf(l.out, "throughput %g op/s\n", float64(l.requests)/l.duration.Seconds())
	fmt.Fprintf(l.out, "p50 %g ns\np99 %g ns\np99.9 %g ns\n", q(0.5), q(0.99), q(0.999))
	fmt.Fprintf(l.out, "generator %g cpus\n", used.Seconds()/l.duration.Seconds())
}
