package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
)

func result(scale float64) *bench.Result {
	r := &bench.Result{Machine: bench.Machine{CPU: "Some <CPU>", CPUs: 2}, Rounds: 2, Command: "cfiberbench run"}
	add := func(workload, subject, metric, unit string, params bench.Params, values ...float64) {
		for i := range values {
			values[i] *= scale
		}
		r.Rows = append(r.Rows, bench.NewRow(workload, subject, params, metric, unit, values))
	}
	for i, subject := range []string{"cfiber", "go", "bare-six", "a subject with a long name & more"} {
		f := float64(i + 1)
		add("switch", subject, "time", "ns/op", nil, f, f+1)
		add("wake", subject, "time", "ns/op", bench.P("mode", "same"), f, f*1000)
		for _, n := range []int{1000, 10_000, 1_000_000} {
			add("memory", subject, "total", "B/unit", bench.P("n", n), 1000*f, 1001*f)
		}
		add("idle", subject, "wakeups", "1/s", bench.P("n", 10), 0, 0)
		add("timers", subject, "cpu", "ns/op", bench.P("n", 1000), f) // one point is a bar
	}
	r.Problems = []bench.Problem{{Workload: "echo", Subject: "x", Kind: bench.Absent, Reason: "install <this>"}}
	return r
}

func write(t *testing.T, r *bench.Result) string {
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "r.json")
	if err := os.WriteFile(name, text, 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestWrite(t *testing.T) {
	r, err := Read([]string{write(t, result(1))})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	plots := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	if len(plots) != 5 {
		t.Errorf("%d plots, want one for each of 5 workloads", len(plots))
	}
	for _, p := range plots {
		if err := wellFormed(p); err != nil {
			t.Errorf("%v in %.200s", err, p)
		}
		// Every subject is named in each plot, by its axis or its legend.
		for _, subject := range []string{">cfiber<", ">go<", ">bare-six<"} {
			if !strings.Contains(p, subject) {
				t.Errorf("no %s in %.200s", subject, p)
			}
		}
	}
	for _, want := range []string{"Some &lt;CPU&gt;", "install &lt;this&gt;", "long name &amp; more", `<tr class="ours">`, `id="missing"`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s on the page", want)
		}
	}
	// It needs nothing from elsewhere.
	for _, m := range regexp.MustCompile(`(?:src|href|url\()\s*=?\s*["']?([^"'\s>]+)`).FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(m[1], "#") {
			t.Errorf("the page wants %s", m[1])
		}
	}
	if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
		t.Error("a number of the page is none")
	}
}

func wellFormed(text string) error {
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// Of two files that measured the same, the later counts.
func TestMerge(t *testing.T) {
	first, second := result(1), result(2)
	second.Rows = second.Rows[:1] // switch of cfiber
	r, err := Read([]string{write(t, first), write(t, second)})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != len(first.Rows) {
		t.Errorf("%d rows, want %d", len(r.Rows), len(first.Rows))
	}
	for _, row := range r.Rows {
		if row.Case() == "switch" && row.Subject == "cfiber" && row.Value != 3 {
			t.Errorf("the row is that of the first file: %+v", row)
		}
		if row.Case() == "switch" && row.Subject == "go" && *row.RatioToCFiber != 2.5/3 {
			t.Errorf("the ratio is to the first file: %v", *row.RatioToCFiber)
		}
	}
	second.Machine.CPU = "another"
	if _, err := Read([]string{write(t, first), write(t, second)}); err == nil {
		t.Error("results of two machines are put in one report")
	}
}

func TestBadFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(name, []byte("BenchmarkX 1 2 ns/op"), 0o666); err != nil {
		t.Fatal(err)
	}
	for file, part := range map[string]string{
		name: "not what run -format json writes", "/no/such/file": "no such file", write(t, &bench.Result{}): "no rows",
	} {
		if _, err := Read([]string{file}); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want one with %q", err, part)
		}
	}
}

// The summary's table and plot say by how much others take more, or do less.
func TestSummary(t *testing.T) {
	r := &bench.Result{Machine: bench.Machine{CPU: "Some <CPU>", CPUs: 2}, Rounds: 1}
	add := func(workload string, params bench.Params, metric, unit, subject string, value float64) {
		r.Rows = append(r.Rows, bench.NewRow(workload, subject, params, metric, unit, []float64{value}))
	}
	add("switch", nil, "time", "ns/op", "cfiber", 2)
	add("switch", nil, "time", "ns/op", "boost.context", 5)
	add("switch", nil, "time", "ns/op", "bare-six", 1)
	add("switch", nil, "time", "ns/op", "of no bar", 7)
	calls := bench.Params{{Key: "ms", Value: "1"}, {Key: "concurrency", Value: "10000"}}
	add("call", calls, "throughput", "op/s", "cfiber", 900)
	add("call", calls, "throughput", "op/s", "cgo", 100)
	add("memory", bench.P("n", 100_000), "total", "B/unit", "cfiber", 4300)
	add("memory", bench.P("n", 100_000), "total", "B/unit", "go", 2150)
	add("idle", bench.P("n", 100_000), "wakeups", "1/s", "cfiber", 0)
	add("idle", bench.P("n", 100_000), "wakeups", "1/s", "go", 0)
	for _, want := range []string{
		"| switch | 2.00 ns/op | boost.context 5.00 ns/op (2.50×), bare-six 1.00 ns/op (0.50×) | `'^switch$'` |\n",
		"| throughput of 10k calls of 1 ms | 900 op/s | cgo 100 op/s (0.11×) | `'^call/ms=1/concurrency=10000$'` |\n",
		"| wake-ups of 100k parked | 0 1/s | go 0 1/s | `'^idle/n=100000$'` |\n",
		"\nSome &lt;CPU&gt;, 2 CPUs",
	} {
		if table := Markdown(r); !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	svg, err := Plot(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := wellFormed(string(svg)); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"switch: boost.context<", ">2.50×<", ">0.50×<", ": cgo<", ">9.00×<"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the plot has no %s", want)
		}
	}
	r.Rows = r.Rows[:1]
	if _, err := Plot(r); err == nil {
		t.Error("a plot of nothing")
	}
}

func TestInsert(t *testing.T) {
	document := []byte("above\n" + summaryBegin + summaryEnd + "\nbelow\n")
	for _, summary := range []string{"one\n", "another\n"} {
		var err error
		if document, err = Insert(document, []byte(summary)); err != nil {
			t.Fatal(err)
		}
		if want := "above\n" + summaryBegin + summary + summaryEnd + "\nbelow\n"; string(document) != want {
			t.Errorf("%q, want %q", document, want)
		}
	}
	for _, bad := range []string{"", summaryBegin, summaryEnd, summaryEnd + summaryBegin} {
		if _, err := Insert([]byte(bad), nil); !errors.Is(err, ErrNoPlace) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
