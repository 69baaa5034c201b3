//go:build cgo

package main

import "time"

// A meter samples the process while something goes on.
type meter struct {
	quit, done chan struct{}
	before     int64 // resident bytes at the start
	threads    int   // the most there were
}

// startMeter starts one. It calls report several times a second.
func startMeter(report func(elapsed time.Duration)) *meter {
	m := &meter{quit: make(chan struct{}), done: make(chan struct{}), before: residentBytes()}
	go m.run(report)
	return m
}

func (m *meter) run(report func(elapsed time.Duration)) {
	defer close(m.done)
	start, reported := time.Now(), time.Now()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		m.threads = max(m.threads, threadCount())
		if time.Since(reported) > 100*time.Millisecond {
			reported = time.Now()
			report(time.Since(start))
		}
		select {
		case <-m.quit:
			m.threads = max(m.threads, threadCount())
			return
		case <-ticker.C:
		}
	}
}

// stop returns the most threads and the growth of resident memory to its peak.
func (m *meter) stop() (threads int, bytes int64) {
	close(m.quit)
	<-m.done
	return m.threads, max(peakBytes()-m.before, 0)
}
