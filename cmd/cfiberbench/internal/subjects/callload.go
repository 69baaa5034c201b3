package subjects

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// A CallLoad makes calls from many goroutines at once, and measures them.
type CallLoad struct {
	Concurrency int
	Sleep       time.Duration // of the function that is called

	t        *T
	duration time.Duration
	baseline int64 // resident bytes before anything was started
	latency  Histogram
	state    atomic.Uint32
	failed   atomic.Pointer[error]
}

// States of a load, in their order.
const (
	loadWarm = iota
	loadMeasured
	loadOver
)

// NewCallLoad reads the parameters of call. It comes before what is measured starts anything.
func NewCallLoad(t *T) *CallLoad {
	return &CallLoad{
		t: t, Concurrency: max(t.Int("concurrency", 1), 1),
		Sleep:    time.Duration(t.Int("ms", 0)) * time.Millisecond,
		duration: t.Duration(), baseline: ResidentBytes(),
	}
}

// Run has each goroutine call, again and again. What is measured begins when each has been
// through a call.
func (l *CallLoad) Run(call func() error) error {
	var warm, ended sync.WaitGroup
	warm.Add(l.Concurrency)
	for range l.Concurrency {
		ended.Go(func() {
			l.once(call)
			warm.Done()
			for l.state.Load() != loadOver {
				l.once(call)
			}
		})
	}
	warm.Wait()
	begin, before := time.Now(), CPUTime()
	l.state.Store(loadMeasured)
	time.Sleep(l.duration / 2)
	threads, resident := Threads(), ResidentBytes()
	time.Sleep(l.duration - time.Since(begin))
	l.state.Store(loadOver)
	elapsed, used := time.Since(begin), CPUTime()-before
	ended.Wait()
	if err := l.failed.Load(); err != nil {
		return *err
	}
	return l.print(elapsed, used, threads, resident-l.baseline)
}

func (l *CallLoad) once(call func() error) {
	begin := time.Now()
	if err := call(); err != nil {
		l.failed.Store(&err)
		l.state.Store(loadOver)
	}
	if l.state.Load() == loadMeasured {
		l.latency.Add(time.Since(begin))
	}
}

func (l *CallLoad) print(elapsed, used time.Duration, threads int, resident int64) error {
	n := float64(l.latency.Count())
	if n == 0 {
		return errors.New("no call ended within the time that is measured: raise seconds")
	}
	t := l.t
	t.Print("throughput", n/elapsed.Seconds(), "op/s")
	t.Print("cpu", float64(used.Nanoseconds())/n, "ns/op")
	t.Print("p50", float64(l.latency.Quantile(0.50).Nanoseconds()), "ns")
	t.Print("p99", float64(l.latency.Quantile(0.99).Nanoseconds()), "ns")
	if threads > 0 {
		t.Print("threads", float64(threads), "threads")
		t.Print("rss", float64(resident)/float64(l.Concurrency), "B/call")
	}
	return nil
}
