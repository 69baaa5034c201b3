package output

import (
	"fmt"
	"io"
	"strings"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
)

// Bench writes Go's benchmark format, a line for each round, which benchstat reads:
//
//	benchstat -col /subject FILE
func Bench(w io.Writer, r *bench.Result) error {
	m := r.Machine
	fmt.Fprintf(w, "goos: %s\ngoarch: %s\npkg: github.com/cfiber/cfiber/cmd/cfiberbench\ncpu: %s\n",
		m.OS, m.Arch, m.CPU)
	fmt.Fprintf(w, "kernel: %s\ntoolchain: %s\ncc: %s\ncommit: %s\n\n", m.Kernel, m.Go, m.CC, m.CFiber)
	for i := 0; i < len(r.Rows); {
		j := i
		for j < len(r.Rows) && r.Rows[j].Case() == r.Rows[i].Case() && r.Rows[j].Subject == r.Rows[i].Subject {
			j++
		}
		benchLines(w, r.Rows[i:j])
		i = j
	}
	_, err := fmt.Fprintln(w)
	return err
}

// benchLines writes the rounds of one subject in one case.
func benchLines(w io.Writer, rows []bench.Row) {
	name := benchName(rows[0])
	for round := range rows[0].Values {
		var line strings.Builder
		fmt.Fprintf(&line, "%s\t1", name)
		for _, row := range rows {
			fmt.Fprintf(&line, "\t%g %s", row.Values[round], benchUnit(row))
		}
		fmt.Fprintln(w, line.String())
	}
}

func benchName(row bench.Row) string {
	parts := strings.Split(row.Workload, "/")
	for i, p := range parts {
		parts[i] = strings.ToUpper(p[:1]) + p[1:]
	}
	name := "Benchmark" + strings.Join(parts, "")
	for _, p := range row.Params.With(bench.P("subject", row.Subject)) {
		name += "/" + p.Key + "=" + p.Value
	}
	return name
}

// benchUnit has the metric's name in it, unless it is the time: units are what tells numbers
// of a line apart.
func benchUnit(row bench.Row) string {
	if row.Metric == "time" {
		return row.Unit
	}
	return row.Metric + "-" + row.Unit
}
