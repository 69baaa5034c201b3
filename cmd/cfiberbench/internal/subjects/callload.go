package subjects

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cfiber/cfiber/internal/histogram"
)

// A CallLoad makes calls from many goroutines at once, and measures them.
type CallLoad struct {
	Concurrency int
	Sleep       time.Duration // of the function that is called
	// InFlight tells how many calls have begun in C and not ended: fewer than there are
	// goroutines, where these wait for a thread. May be nil.
	InFlight func() int

	t        *T
	duration time.Duration
	over     atomic.Bool
	ended    atomic.Uint64 // calls, within the time that is measured
	latency  histogram.Histogram
	failed   atomic.Pointer[error]
}

// NewCallLoad reads the parameters of call.
func NewCallLoad(t *T) *CallLoad {
	return &CallLoad{
		t: t, Concurrency: max(t.Int("concurrency", 1), 1),
		Sleep:    time.Duration(t.Int("ms", 0)) * time.Millisecond,
		duration: t.Duration(),
	}
}

// Run has each goroutine call, again and again. What is measured begins when each has been
// through a call, and they wait for that: where calls return at once, goroutines run for their
// whole time slice, and it would take 10,000 of them most of a minute.
func (l *CallLoad) Run(call func() error) error {
	var there, warm, ended sync.WaitGroup
	there.Add(l.Concurrency)
	warm.Add(l.Concurrency)
	first, start := make(chan struct{}), make(chan struct{})
	var begin time.Time
	for range l.Concurrency {
		ended.Go(func() {
			there.Done()
			<-first
			l.try(call)
			warm.Done()
			<-start
			l.loop(call, begin)
		})
	}
	there.Wait()
	baseline := ResidentBytes() // the goroutines are not the calls'
	close(first)
	warm.Wait()
	before := CPUTime()
	begin = time.Now()
	close(start)
	at := l.sample(begin, baseline)
	l.over.Store(true)
	elapsed, used := time.Since(begin), CPUTime()-before
	ended.Wait()
	if err := l.failed.Load(); err != nil {
		return *err
	}
	return l.print(elapsed, used, at)
}

// loop calls until it is over. A call's latency counts from when the goroutine has wanted it, so
// the time for which the goroutine had to wait to run is in it. For the same reason one that has
// not had its turn when it is over still makes the call that it wanted.
func (l *CallLoad) loop(call func() error, wanted time.Time) {
	for {
		l.try(call)
		over := l.over.Load()
		now := time.Now()
		if !over {
			l.ended.Add(1)
		}
		l.latency.Add(now.Sub(wanted), 1)
		wanted = now
		if over {
			return
		}
	}
}

func (l *CallLoad) try(call func() error) {
	if err := call(); err != nil {
		l.failed.Store(&err)
		l.over.Store(true)
	}
}

// A sample is what there is while calls are going on.
type sample struct {
	threads            int     // at most
	inFlight, resident float64 // on average; resident bytes beyond the baseline
}

// sample looks several times until the time is over.
func (l *CallLoad) sample(begin time.Time, baseline int64) (s sample) {
	const looks = 10
	for i := range looks {
		time.Sleep(time.Until(begin.Add(l.duration * time.Duration(i) / looks)))
		s.threads = max(s.threads, Threads())
		s.resident += float64(ResidentBytes()-baseline) / looks
		if l.InFlight != nil && l.Sleep > 0 {
			s.inFlight += float64(l.InFlight()) / looks
		}
	}
	time.Sleep(time.Until(begin.Add(l.duration)))
	return s
}

func (l *CallLoad) print(elapsed, used time.Duration, at sample) error {
	n := float64(l.ended.Load())
	if n == 0 {
		return errors.New("no call ended within the time that is measured: raise seconds")
	}
	t := l.t
	t.Print("throughput", n/elapsed.Seconds(), "op/s")
	t.Print("cpu", float64(used.Nanoseconds())/n, "ns/op")
	t.Print("p50", float64(l.latency.Quantile(0.50).Nanoseconds()), "ns")
	t.Print("p99", float64(l.latency.Quantile(0.99).Nanoseconds()), "ns")
	if at.threads > 0 {
		t.Print("threads", float64(at.threads), "threads")
	}
	if at.threads > 0 && at.inFlight > 0 {
		t.Print("in_flight", at.inFlight, "calls")
		t.Print("rss", at.resident/at.inFlight, "B/call")
	}
	return nil
}
