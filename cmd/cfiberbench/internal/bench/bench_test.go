package bench

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3}, {[]float64{1, 9}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5},
	} {
		before := append([]float64{}, test.values...)
		if got := Median(test.values); got != test.want {
			t.Errorf("Median(%v) = %v, want %v", test.values, got, test.want)
		}
		if !reflect.DeepEqual(test.values, before) {
			t.Error("Median changed the order of the rounds")
		}
	}
}

func TestNewRow(t *testing.T) {
	r := NewRow("echo", "go", P("conns", 10), "p99", "ns", []float64{10, 30, 20})
	if r.Value != 20 || r.Min != 10 || r.Max != 30 || r.Runs != 3 || r.Spread() != 0.5 {
		t.Errorf("%+v, spread %v", r, r.Spread())
	}
	if r.Case() != "echo/conns=10" {
		t.Errorf("its case is %q", r.Case())
	}
}

func row(name, subject, metric string, value float64) Row {
	workload, rest, _ := strings.Cut(name, ":")
	var params Params
	if rest != "" {
		params, _ = ParseParams(strings.Split(rest, ","))
	}
	unit := "ns/op"
	if metric == "total" {
		unit = "B/unit"
	}
	return NewRow(workload, subject, params, metric, unit, []float64{value})
}

func TestSetRatios(t *testing.T) {
	rows := []Row{
		row("yield:fibers=2", "go", "time", 100), row("yield:fibers=2", CFiber, "time", 10),
		row("yield:fibers=3", "go", "time", 70), row("yield:fibers=2", "go", "cpu", 5),
	}
	SetRatios(rows)
	if r := rows[0].RatioToCFiber; r == nil || *r != 10 {
		t.Errorf("ratio %v", r)
	}
	if r := rows[1].RatioToCFiber; r == nil || *r != 1 {
		t.Errorf("cfiber's own ratio %v", r)
	}
	if rows[2].RatioToCFiber != nil || rows[3].RatioToCFiber != nil {
		t.Error("a ratio to what is not there")
	}
}

func TestParams(t *testing.T) {
	p, err := ParseParams([]string{"mode=warm", "n=12", "empty="})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := p.Int("n", 1); n != 12 || err != nil {
		t.Errorf("n is %v, %v", n, err)
	}
	if n, err := p.Int("other", 7); n != 7 || err != nil {
		t.Errorf("a default is %v, %v", n, err)
	}
	if _, err := p.Int("mode", 1); err == nil {
		t.Error("warm is a whole number")
	}
	q := p.With(P("n", 13, "more", "x"))
	if q.String() != "mode=warm n=13 empty= more=x" || p.Get("n") != "12" {
		t.Errorf("With gives %v of %v", q, p)
	}
	for _, bad := range []string{"word", "=3", ""} {
		if _, err := ParseParams([]string{bad}); err == nil {
			t.Errorf("%q is key=value", bad)
		}
	}
	for value, want := range map[string]time.Duration{"0.25": 250 * time.Millisecond, "2": 2 * time.Second, "": time.Minute} {
		if d, err := P("s", value).Seconds("s", time.Minute); d != want || err != nil {
			t.Errorf("s=%s is %v, %v", value, d, err)
		}
	}
	for _, value := range []string{"-1", "0", "x", "NaN", "1e99"} {
		if _, err := P("s", value).Seconds("s", time.Minute); err == nil {
			t.Errorf("s=%s is a time", value)
		}
	}
}

// The order of parameters is that of the name, so JSON must keep it.
func TestParamsJSON(t *testing.T) {
	for _, p := range []Params{nil, P("z", 1, "a", 2), P("quote", `"\`)} {
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var q Params
		if err := json.Unmarshal(text, &q); err != nil || q.String() != p.String() {
			t.Errorf("%v becomes %s and then %v, %v", p, text, q, err)
		}
	}
	for _, bad := range []string{`[]`, `{"a":1}`, `{"a":{}}`, `"a"`} {
		var p Params
		if err := json.Unmarshal([]byte(bad), &p); err == nil {
			t.Errorf("%s is read as %v", bad, p)
		}
	}
}

func TestCases(t *testing.T) {
	known := map[string]bool{}
	for _, w := range Workloads {
		known[w.Name] = true
	}
	for _, quick := range []bool{false, true} {
		seen := map[string]bool{}
		for _, c := range Cases(2, quick) {
			if seen[c.Name()] {
				t.Errorf("there are two cases %s", c.Name())
			}
			seen[c.Name()] = true
			base := c.Workload[strings.Index(c.Workload, "/")+1:]
			if !known[base] {
				t.Errorf("case %s is of a workload that nobody explains", c.Name())
			}
			if n, err := c.Effort.Int("n", 0); c.Calibrate && (n < 1 || err != nil) {
				t.Errorf("case %s has no n to begin with", c.Name())
			}
		}
		for name := range known {
			found := false
			for c := range seen {
				found = found || strings.HasPrefix(c, name)
			}
			if !found {
				t.Errorf("quick %v: no case of %s", quick, name)
			}
		}
	}
}

// A bar that speaks of a case that is not there would be silent for ever.
func TestBarsSpeakOfCases(t *testing.T) {
	names := map[string]bool{}
	for _, c := range Cases(2, false) {
		names[c.Name()] = true
	}
	for _, b := range Bars {
		if !names[b.Case] || b.Other != "" && !names[b.Other] {
			t.Errorf("bar %q: no case %q or %q", b.About, b.Case, b.Other)
		}
	}
}

func TestJudge(t *testing.T) {
	rows := []Row{
		row("switch", CFiber, "time", 5), row("switch", "boost.context", "time", 10),
		row("switch", "inline-six", "time", 4), row("switch", "bare-six", "time", 6),
		row("memory:n=100000", CFiber, "total", 4404), row("memory:n=1000000", CFiber, "total", 4403),
		row("call:ms=1,concurrency=10000", CFiber, "throughput", 100),
		row("call:ms=1,concurrency=10000", "cgo", "throughput", 11),
		row("busy/echo:conns=100,crunch=0", CFiber, "p99", 1e6),
		row("busy/echo:conns=100,crunch=1", CFiber, "p99", 13e6),
		row("idle:n=100000", CFiber, "wakeups", 0),
		row("scale/tree:threads=1", CFiber, "time", 18), row("scale/tree:threads=2", CFiber, "time", 10.1),
		row("yield:fibers=2", "go", "time", 100), // cfiber's is not there
	}
	got := map[string]Verdict{}
	for _, v := range Judge(rows) {
		got[v.Bar] = v
	}
	for bar, met := range map[string]bool{
		"switch": true, "switch, by hand": false, "memory of 100k parked": false, "memory of 1M parked": true,
		"throughput of 10k calls of 1 ms": false, "echo beside 5 ms of computing, p99": true,
		"wake-ups of 100k parked": true, "tree, threads 1 to 2": false,
	} {
		v, ok := got[bar]
		if !ok || v.Met != met {
			t.Errorf("%s: %+v (there: %v), want met %v", bar, v, ok, met)
		}
		delete(got, bar)
	}
	if len(got) > 0 {
		t.Errorf("bars without numbers have been judged: %v", got)
	}
}
