package subjects

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/cfiber/cfiber/internal/histogram"
)

// What subjects of the same workload agree on.
const (
	EchoBuffer = 4096 // bytes, of an echo server's connection
	CrunchByte = 'C'  // a message that starts with it makes the server compute
	CrunchTime = 5 * time.Millisecond
)

// A Window is the part of timers that is measured.
type Window struct {
	Late histogram.Histogram
	Open atomic.Bool
}

// Woke notes how late a sleeper was.
func (w *Window) Woke(late time.Duration) {
	if w.Open.Load() {
		w.Late.Add(late, 1)
	}
}

// Measure is called when all sleepers have started. Of the windows that began with base, the
// next one is for settling; it measures the one after that, prints the metrics of timers, and
// leaves the sleepers to the end of the process.
func (t *T) Measure(w *Window, base time.Time, length time.Duration) error {
	opens := base.Add((time.Since(base)/length + 2) * length)
	time.Sleep(time.Until(opens))
	before := CPUTime()
	w.Open.Store(true)
	time.Sleep(time.Until(opens.Add(length)))
	w.Open.Store(false)
	used := CPUTime() - before
	wakes := w.Late.Count()
	if wakes == 0 {
		return errors.New("nobody woke within the window")
	}
	t.Print("cpu", float64(used.Nanoseconds())/float64(wakes), "ns/op")
	t.Print("late_p99", float64(w.Late.Quantile(0.99).Nanoseconds()), "ns")
	t.Print("wakes", float64(wakes), "count")
	return nil
}
