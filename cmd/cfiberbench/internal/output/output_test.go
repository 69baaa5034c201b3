package output

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"golang.org/x/perf/benchfmt"
)

func result() *bench.Result {
	p := bench.P("fibers", 2)
	rows := []bench.Row{
		bench.NewRow("yield", "cfiber", p, "time", "ns/op", []float64{10, 11, 9}),
		bench.NewRow("yield", "cfiber", p, "rss", "B/unit", []float64{4096, 4097, 4095}),
		bench.NewRow("yield", "go", p, "time", "ns/op", []float64{100, 110, 120}),
		bench.NewRow("busy/echo", "cfiber", bench.P("conns", 10), "p99.9", "ns", []float64{1e6, 2e6, 3e6}),
	}
	bench.SetRatios(rows)
	return &bench.Result{
		Machine: bench.Machine{OS: "linux", Arch: "amd64", CPU: "Some CPU", CPUs: 2, Go: "go1.26"},
		Rounds:  3, Rows: rows,
		Problems: []bench.Problem{
			{Workload: "yield", Params: p, Subject: "pth", Kind: bench.Absent, Reason: "install libpth-dev"},
			{Workload: "spawn", Subject: "pth", Kind: bench.Absent, Reason: "install libpth-dev"},
		},
		Bars: []bench.Verdict{{Bar: "yield", Met: false, Is: "10 ns", ShouldBe: "≤ 1/16 ×"}},
	}
}

// benchstat's own reader must see each round, with the subject and the parameters as keys.
func TestBench(t *testing.T) {
	var b bytes.Buffer
	if err := Bench(&b, result()); err != nil {
		t.Fatal(err)
	}
	type line struct {
		name  string
		value float64
		unit  string
	}
	var got []line
	for r := benchfmt.NewReader(&b, "test"); r.Scan(); {
		switch rec := r.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Error(rec)
		case *benchfmt.Result:
			if cpu := rec.GetConfig("cpu"); cpu != "Some CPU" {
				t.Errorf("cpu is %q", cpu)
			}
			for _, v := range rec.Values {
				value, unit := v.Value, v.Unit
				if v.OrigUnit != "" {
					value, unit = v.OrigValue, v.OrigUnit
				}
				got = append(got, line{string(rec.Name), value, unit})
			}
		}
	}
	want := []line{
		{"Yield/fibers=2/subject=cfiber", 10, "ns/op"}, {"Yield/fibers=2/subject=cfiber", 4096, "rss-B/unit"},
		{"Yield/fibers=2/subject=cfiber", 11, "ns/op"}, {"Yield/fibers=2/subject=cfiber", 4097, "rss-B/unit"},
		{"Yield/fibers=2/subject=cfiber", 9, "ns/op"}, {"Yield/fibers=2/subject=cfiber", 4095, "rss-B/unit"},
		{"Yield/fibers=2/subject=go", 100, "ns/op"}, {"Yield/fibers=2/subject=go", 110, "ns/op"},
		{"Yield/fibers=2/subject=go", 120, "ns/op"},
		{"BusyEcho/conns=10/subject=cfiber", 1e6, "p99.9-ns"}, {"BusyEcho/conns=10/subject=cfiber", 2e6, "p99.9-ns"},
		{"BusyEcho/conns=10/subject=cfiber", 3e6, "p99.9-ns"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := JSON(&b, result()); err != nil {
		t.Fatal(err)
	}
	var got struct{ Rows []map[string]any }
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || len(got.Rows) != 4 {
		t.Fatalf("%v, %d rows", err, len(got.Rows))
	}
	row := got.Rows[2]
	for key, want := range map[string]any{
		"workload": "yield", "subject": "go", "metric": "time", "unit": "ns/op", "value": 110.0,
		"ratio_to_cfiber": 11.0, "runs": 3.0, "min": 100.0, "max": 120.0,
		"params": map[string]any{"fibers": "2"},
	} {
		if !reflect.DeepEqual(row[key], want) {
			t.Errorf("%s is %v, want %v", key, row[key], want)
		}
	}
	var back bench.Result
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || !reflect.DeepEqual(back.Rows, result().Rows) {
		t.Errorf("what was written is read as %+v, %v", back.Rows, err)
	}
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	if err := Text(&b, result()); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"Some CPU, 2 CPUs", "medians of 3 rounds", "yield/fibers=2", "busy/echo/conns=10", "110 ns/op", "±9%", "11.0×",
		"pth absent (yield/fibers=2, spawn): install libpth-dev", "MISSED",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
