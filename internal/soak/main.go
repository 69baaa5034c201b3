//go:build cgo

// Command soak runs all that cfiber does at once, for as long as one likes, and then checks that
// nothing has grown: after a warm-up, and again at the end, it lets everything come to rest and
// compares what the process has. It exits with status 1 if a result was wrong or if something
// grew, and says what and by how much.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/cfiber/cfiber"
	"github.com/cfiber/cfiber/internal/ctest"
)

const (
	// restLimit bounds the wait for everything to come to rest.
	restLimit = time.Minute
	// restPause is how long nothing may have changed: memory is given back by and by.
	restPause = 500 * time.Millisecond
	// progressPeriod is how often a line is printed.
	progressPeriod = 5 * time.Second
)

type soak struct {
	duration time.Duration
	seed     uint64
	threads  int

	rt     *cfiber.Runtime
	loads  []*load
	failed failures
}

// A report is what -report writes.
type report struct {
	Seconds  float64
	Seed     uint64
	Threads  int
	Done     map[string]int64
	Before   snapshot
	After    snapshot
	Failures []string
}

func main() {
	var s soak
	var path string
	flag.DurationVar(&s.duration, "for", time.Minute, "how long to run")
	flag.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()), "of what is done by chance")
	flag.IntVar(&s.threads, "threads", 0, "OS threads of the runtime; 0: as many as there are CPUs")
	flag.StringVar(&path, "report", "", "write figures as JSON to this `file`")
	flag.Parse()
	if flag.NArg() > 0 || s.duration <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	r, err := s.run()
	if err == nil && path != "" {
		err = r.write(path)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	if len(r.Failures) > 0 {
		for _, f := range r.Failures {
			fmt.Println("FAIL", f)
		}
		fmt.Printf("run it again with -seed %d\n", s.seed)
		os.Exit(1)
	}
	fmt.Println("nothing wrong, and nothing has grown")
}

func (s *soak) run() (*report, error) {
	ctest.Callback = callback
	var err error
	if s.rt, err = cfiber.New(cfiber.Options{
		Threads: s.threads, CloseTimeout: restLimit,
		Logger: slog.New(slog.DiscardHandler), // it warns of callbacks that wait for a core
	}); err != nil {
		return nil, err
	}
	s.loads = s.allLoads()
	fmt.Printf("seed %d, %s\n", s.seed, s.duration)
	begin := time.Now()

	warmUp := min(max(s.duration/6, time.Second), 30*time.Second)
	s.drive(begin, begin.Add(warmUp))
	before := s.rest()
	fmt.Println("after the warm-up:", before)
	s.drive(begin, begin.Add(s.duration))
	after := s.rest()
	fmt.Println("at the end:       ", after)
	for _, growth := range before.growth(after) {
		s.failed.add("%s", growth)
	}

	r := &report{Seconds: time.Since(begin).Seconds(), Seed: s.seed, Threads: s.rt.Stats().Threads,
		Done: map[string]int64{}, Before: before, After: after}
	for _, l := range s.loads {
		r.Done[l.name] = l.done.Load()
		fmt.Printf("%12d %s\n", l.done.Load(), l.name)
		if l.done.Load() == 0 {
			s.failed.add("%s: not done once", l.name)
		}
	}
	if err := s.rt.Close(); err != nil {
		s.failed.add("%v", err)
	}
	r.Failures = s.failed.all()
	return r, nil
}

// drive runs all loads until then.
func (s *soak) drive(begin, until time.Time) {
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	var wg sync.WaitGroup
	for i, l := range s.loads {
		for k := range l.workers {
			wg.Go(func() { l.loop(ctx, s, newRandom(s.seed, i, k)) })
		}
	}
	p := newProgress(begin, s.loads)
	ticker := time.NewTicker(progressPeriod)
	defer ticker.Stop()
	for ctx.Err() == nil && s.failed.few() {
		select {
		case <-ctx.Done():
		case <-ticker.C:
			p.show()
		}
	}
	cancel()
	wg.Wait()
	p.clear()
}

// rest waits until no fiber is left and nothing is given back any more, and says what there is.
func (s *soak) rest() snapshot {
	limit := time.Now().Add(restLimit)
	for s.rt.Stats().Live > 0 && time.Now().Before(limit) {
		time.Sleep(time.Millisecond)
	}
	last := s.settled()
	for time.Now().Before(limit) {
		time.Sleep(restPause)
		now := s.settled()
		if now.sameAs(last) {
			return now
		}
		last = now
	}
	return last
}

func (s *soak) settled() snapshot {
	runtime.GC() // what a finaliser holds goes with the next
	debug.FreeOSMemory()
	snap := takeSnapshot()
	stats := s.rt.Stats()
	snap.Live, snap.Workers = stats.Live, stats.Threads
	return snap
}

func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o666)
}

// failures keeps the first of them.
type failures struct {
	mu   sync.Mutex
	list []string
	more int
}

const mostFailures = 20

func (f *failures) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.list) < mostFailures {
		f.list = append(f.list, fmt.Sprintf(format, args...))
	} else {
		f.more++
	}
}

func (f *failures) few() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.list) < mostFailures
}

func (f *failures) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.more > 0 {
		return append(f.list, fmt.Sprintf("and %d more", f.more))
	}
	return f.list
}
