//go:build cgo

package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// progress prints the rates of the loads: on a terminal in one line that is written over.
type progress struct {
	terminal    bool
	begin, last time.Time
	loads       []*load
	done        []int64
}

func newProgress(begin time.Time, loads []*load) *progress {
	info, err := os.Stdout.Stat()
	p := &progress{
		terminal: err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb",
		begin:    begin, last: time.Now(), loads: loads, done: make([]int64, len(loads)),
	}
	for i, l := range loads {
		p.done[i] = l.done.Load()
	}
	return p
}

func (p *progress) show() {
	var b strings.Builder
	passed := time.Since(p.last).Seconds()
	for i, l := range p.loads {
		n := l.done.Load()
		fmt.Fprintf(&b, ", %.0f %s", float64(n-p.done[i])/passed, l.name)
		p.done[i] = n
	}
	p.last = time.Now()
	before, after := "", "\n"
	if p.terminal {
		before, after = "\r", "\x1b[K"
	}
	fmt.Printf("%s%.0f s; per second: %s%s", before, time.Since(p.begin).Seconds(), b.String()[2:], after)
}

// clear makes room for what stays.
func (p *progress) clear() {
	if p.terminal {
		fmt.Print("\r\x1b[K")
	}
}
