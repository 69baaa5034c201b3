package bench

import (
	"fmt"
	"strconv"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/human"
)

// A Bar is what a number of cfiber's is held against: another number, times a factor, plus
// something.
type Bar struct {
	About  string
	Case   string // of cfiber's number
	Metric string
	Least  bool // it shall be at least the limit; else at most

	Factor   float64
	Subjects []string // whose best number is the limit; none: the limit is Plus
	Other    string   // the case of the limit; "": the same
	Plus     float64
}

const (
	atMost  = false
	atLeast = true
)

// Bars are all that there are.
var Bars = []Bar{
	{"switch", "switch", "time", atMost, 0.6, []string{"boost.context"}, "", 0},
	{"switch, by hand", "switch", "time", atMost, 1.1, []string{"inline-six", "bare-six", "bare-six-ret"}, "", 0},
	{"switch", "switch", "time", atMost, 1.0 / 200, []string{"ucontext"}, "", 0},

	{"yield", "yield/fibers=2", "time", atMost, 1.0 / 16, []string{"go"}, "", 0},
	{"yield", "yield/fibers=2", "time", atMost, 1.0 / 8, []string{"boost.fiber"}, "", 0},
	{"yield", "yield/fibers=2", "time", atMost, 1.0 / 3, []string{"state-threads"}, "", 0},

	{"spawn, warm", "spawn/mode=warm", "time", atMost, 1.0 / 6, []string{"go"}, "", 0},
	{"spawn, warm", "spawn/mode=warm", "time", atMost, 1.0 / 4, []string{"boost.fiber"}, "", 0},
	{"spawn, warm", "spawn/mode=warm", "time", atMost, 0.7, []string{"state-threads"}, "", 0},
	{"tree on 2 threads", "tree/threads=2", "time", atMost, 1.0 / 2, []string{"go"}, "", 0},

	{"memory of 100k parked", "memory/n=100000", "total", atMost, 0, nil, "", 4.3 * 1024},
	{"memory of 1M parked", "memory/n=1000000", "total", atMost, 0, nil, "", 4.3 * 1024},
	{"mappings of 1M parked", "memory/n=1000000", "mappings", atMost, 1, []string{CFiber}, "memory/n=1000", 64},

	{"wake of a sleeping thread", "wake/mode=sleeping", "time", atMost, 1.3, []string{"bare-eventfd"}, "", 0},

	{"throughput of 10k calls of 1 ms", "call/ms=1/concurrency=10000", "throughput", atLeast, 10, []string{"cgo"}, "", 0},
	{"memory of 10k calls of 1 ms", "call/ms=1/concurrency=10000", "rss", atMost, 1.0 / 3, []string{"cgo"}, "", 0},
	{"CPU of 10k calls of 1 ms", "call/ms=1/concurrency=10000", "cpu", atMost, 1.0 / 4, []string{"cgo"}, "", 0},
	{"latency of an immediate call", "call/ms=0/concurrency=1", "p50", atMost, 1.5, []string{"eventfd"}, "", 0},

	{"echo, 1,000 connections, per CPU", "echo/conns=1000", "per_cpu", atLeast, 1.3, []string{"go"}, "", 0},
	{"echo, 1,000 connections, per CPU", "echo/conns=1000", "per_cpu", atLeast, 0.95, []string{"libuv"}, "", 0},
	{"echo, 1,000 connections, per CPU", "echo/conns=1000", "per_cpu", atLeast, 0.85, []string{"bare"}, "", 0},
	{"echo, 1,000 connections, p99", "echo/conns=1000", "p99", atMost, 1, []string{"go"}, "", 0},

	{"echo, all Ps busy, p99", "busy/echo/conns=100/busy=1", "p99", atMost, 1.0 / 5, []string{"go"}, "", 0},
	{"echo beside 5 ms of computing, p99", "busy/echo/conns=100/crunch=1", "p99", atMost, 1, []string{CFiber}, "busy/echo/conns=100/crunch=0", 12e6},

	{"CPU of 1M sleepers", "timers/n=1000000", "cpu", atMost, 1.0 / 2, []string{"go"}, "", 0},
	{"wake-ups of 100k parked", "idle/n=100000", "wakeups", atMost, 0, nil, "", 0},

	{"tree, threads 1 to 2", "scale/tree/threads=2", "time", atMost, 1 / 1.8, []string{CFiber}, "scale/tree/threads=1", 0},
	{"yield, threads 1 to 2", "scale/yield/fibers=1000/threads=2", "time", atMost, 1 / 1.8, []string{CFiber}, "scale/yield/fibers=1000/threads=1", 0},
}

// A Verdict is what became of a bar.
type Verdict struct {
	Bar      string  `json:"bar"`
	Met      bool    `json:"met"`
	Is       string  `json:"is"`
	ShouldBe string  `json:"should_be"`
	Value    float64 `json:"value"`
	Limit    float64 `json:"limit"`
}

// Judge holds rows against those bars whose numbers are there.
func Judge(rows []Row) []Verdict {
	var verdicts []Verdict
	for _, b := range Bars {
		if v, ok := b.judge(rows); ok {
			verdicts = append(verdicts, v)
		}
	}
	return verdicts
}

func (b Bar) judge(rows []Row) (Verdict, bool) {
	ours, ok := b.best(rows, b.Case, []string{CFiber})
	if !ok {
		return Verdict{}, false
	}
	limit := b.Plus
	is, shouldBe := human.Unit(ours.Value, ours.Unit), human.Unit(limit, ours.Unit)
	if b.Subjects != nil {
		other := b.Other
		if other == "" {
			other = b.Case
		}
		theirs, ok := b.best(rows, other, b.Subjects)
		if !ok {
			return Verdict{}, false
		}
		limit += b.Factor * theirs.Value
		if theirs.Value != 0 {
			is += fmt.Sprintf("; %.3g × %s", ours.Value/theirs.Value, describe(theirs, b.Other != ""))
		}
		shouldBe = factor(b.Factor) + " ×"
		if b.Plus != 0 {
			shouldBe += " + " + human.Unit(b.Plus, ours.Unit)
		}
	}
	sign, met := "≤ ", ours.Value <= limit
	if b.Least {
		sign, met = "≥ ", ours.Value >= limit
	}
	return Verdict{Bar: b.About, Met: met, Is: is, ShouldBe: sign + shouldBe, Value: ours.Value, Limit: limit}, true
}

func describe(r Row, otherCase bool) string {
	whose := r.Subject
	if otherCase {
		whose = "that of " + r.Case()
	}
	return whose + ", " + human.Unit(r.Value, r.Unit)
}

// factor writes fractions as such.
func factor(f float64) string {
	if f < 1 {
		for d := 2.0; d <= 200; d++ {
			if f == 1/d {
				return "1/" + strconv.Itoa(int(d))
			}
		}
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

// best is the row of those subjects that is hardest to beat.
func (b Bar) best(rows []Row, name string, subjects []string) (best Row, ok bool) {
	for _, s := range subjects {
		if r, found := Find(rows, name, b.Metric, s); found && (!ok || (r.Value > best.Value) == b.Least) {
			best, ok = r, true
		}
	}
	return best, ok
}
