package runner

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/fake"
)

func TestMain(m *testing.M) {
	fake.Main()
	m.Run()
}

// journal is a Progress that remembers.
type journal struct {
	total        int
	steps, notes []string
}

func (j *journal) Start(n int)      { j.total = n }
func (j *journal) Step(what string) { j.steps = append(j.steps, what) }
func (j *journal) Note(text string) { j.notes = append(j.notes, text) }
func (j *journal) Done()            {}

func subject(t *testing.T, name, behaviour string) *Subject {
	// What the runner asks for is the behaviour.
	return &Subject{Name: name, Command: fake.Command(t.Setenv), Workloads: []string{behaviour}}
}

func newRunner(rounds int) (*Runner, *journal) {
	j := &journal{}
	return &Runner{Rounds: rounds, Limit: time.Minute, Target: time.Millisecond, Progress: j}, j
}

func TestTurns(t *testing.T) {
	a, b, c := subject(t, "a", "good"), subject(t, "b", "good"), subject(t, "c", "other")
	r, j := newRunner(2)
	rows, problems := r.Run(context.Background(), []bench.Case{{Workload: "good", Asks: "good"}}, []*Subject{a, b, c})
	if want := []string{"good  a", "good  b", "good  a", "good  b"}; !reflect.DeepEqual(j.steps, want) || j.total != 4 {
		t.Errorf("steps %q of %d, want %q", j.steps, j.total, want)
	}
	if len(problems) > 0 || len(rows) != 4 || rows[0].Runs != 2 || rows[0].Value != 12.5 || rows[3].Metric != "rss" {
		t.Errorf("%+v, %v", rows, problems)
	}
}

// One that fails is left out, named, and has no rows; the others go on.
func TestFailing(t *testing.T) {
	for behaviour, want := range map[string]bench.Problem{
		"fails":       {Kind: bench.Failed, Reason: "it broke"},
		"unsupported": {Kind: bench.Unsupported, Reason: "there is no such thing here"},
		"hangs":       {Kind: bench.Failed, Reason: "no end within 500ms: about to hang"},
		"garbage":     {Kind: bench.Failed, Reason: "hello, world"},
	} {
		bad := subject(t, "bad", "good")
		bad.Command = append(bad.Command, behaviour) // before what the runner asks for
		r, j := newRunner(3)
		r.Limit = 500 * time.Millisecond
		if behaviour != "hangs" {
			r.Limit = time.Minute
		}
		rows, problems := r.Run(context.Background(), []bench.Case{{Workload: "good", Asks: "good"}},
			[]*Subject{bad, subject(t, "good one", "good")})
		if len(problems) != 1 || problems[0].Subject != "bad" || problems[0].Kind != want.Kind ||
			!strings.Contains(problems[0].Reason, want.Reason) {
			t.Errorf("%s: problems %+v", behaviour, problems)
		}
		for _, row := range rows {
			if row.Subject == "bad" || row.Runs != pick(behaviour == "hangs", row.Runs, 3) {
				t.Errorf("%s: %+v", behaviour, row)
			}
		}
		if noted := len(j.notes) == 1; noted != (want.Kind == bench.Failed) {
			t.Errorf("%s: notes %q", behaviour, j.notes)
		}
	}
}

func pick(condition bool, yes, no int) int {
	if condition {
		return yes
	}
	return no
}

func TestLacking(t *testing.T) {
	absent := subject(t, "absent", "good")
	absent.Absent = "install it"
	pending := subject(t, "pending", "other")
	pending.Lacks = map[string]string{"good": "not there yet"}
	r, _ := newRunner(1)
	rows, problems := r.Run(context.Background(), []bench.Case{{Workload: "busy/good", Asks: "good"}}, []*Subject{absent, pending})
	want := []bench.Problem{
		{Workload: "busy/good", Subject: "absent", Kind: bench.Absent, Reason: "install it"},
		{Workload: "busy/good", Subject: "pending", Kind: bench.Unsupported, Reason: "not there yet"},
	}
	if !reflect.DeepEqual(problems, want) || rows != nil {
		t.Errorf("%+v, %v", problems, rows)
	}
}

// At 1 µs each, 1,000 operations take the target's millisecond.
func TestCalibrate(t *testing.T) {
	for _, start := range []int{1, 50, 1_000_000} {
		e := &entrant{Subject: subject(t, "slow", "slow"), params: bench.P("mode", "x", "n", start)}
		c := bench.Case{Workload: "slow", Asks: "slow", Calibrate: true}
		r, _ := newRunner(1)
		if err := r.calibrate(context.Background(), c, e); err != nil {
			t.Fatal(err)
		}
		if got := e.params.String(); got != "mode=x n=1000" {
			t.Errorf("from %d it comes to %s", start, got)
		}
	}
}

func TestMaxRounds(t *testing.T) {
	r, j := newRunner(9)
	r.Run(context.Background(), []bench.Case{{Workload: "good", Asks: "good", MaxRounds: 2}}, []*Subject{subject(t, "a", "good")})
	if len(j.steps) != 2 || j.total != 2 {
		t.Errorf("%d steps of %d", len(j.steps), j.total)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r, _ := newRunner(1)
	rows, problems := r.Run(ctx, []bench.Case{{Workload: "good", Asks: "good"}}, []*Subject{subject(t, "a", "good")})
	if len(rows)+len(problems) > 0 {
		t.Errorf("%v, %v", rows, problems)
	}
}

func TestParseRedisBenchmark(t *testing.T) {
	const out = `WARNING: Could not fetch server CONFIG
"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
"SET","12195.12","2.1","0.5","3.175","6.0","15.855","16.0"
`
	metrics, err := parseRedisBenchmark("set", out)
	want := []bench.Metric{
		{Name: "set_throughput", Unit: "op/s", Value: 12195.12}, {Name: "set_p50", Unit: "ns", Value: 3.175e6},
		{Name: "set_p99", Unit: "ns", Value: 1.5855e7},
	}
	if err != nil || fmt.Sprint(metrics) != fmt.Sprint(want) {
		t.Errorf("%v, %v", metrics, err)
	}
	if _, err := parseRedisBenchmark("set", "Could not connect\n"); err == nil {
		t.Error("no error where there is no table")
	}
}
