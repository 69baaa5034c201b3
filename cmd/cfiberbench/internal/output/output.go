// Package output writes results: as a table, in Go's benchmark format, as JSON.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/human"
)

// Formats are the ways to write a result, by name.
var Formats = map[string]func(io.Writer, *bench.Result) error{
	"text": Text, "bench": Bench, "json": JSON,
}

// JSON writes all there is.
func JSON(w io.Writer, r *bench.Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// Text writes a table for a person.
func Text(w io.Writer, r *bench.Result) error {
	fmt.Fprintf(w, "%s\n\n", About(r))
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "case\tsubject\tmetric\tmedian\tspread\tof cfiber's")
	last := ""
	for _, row := range r.Rows {
		name := row.Case()
		if name == last {
			name = ""
		} else {
			last = name
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", name, row.Subject, row.Metric,
			human.Unit(row.Value, row.Unit), Spread(row), Ratio(row))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i, p := range Problems(r) {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, p)
	}
	fmt.Fprintln(w)
	return Bars(w, r)
}

// About is what a result was measured on, in a few lines.
func About(r *bench.Result) string {
	m := r.Machine
	rounds := fmt.Sprintf("medians of %d rounds", r.Rounds)
	if r.Rounds == 1 {
		rounds = "one round"
	}
	if r.Quick {
		rounds += ", -quick: the times mean little"
	}
	return fmt.Sprintf("%s, %d CPUs, %s, %s/%s\n%s, %s\ncfiber %s; %s",
		m.CPU, m.CPUs, m.Kernel, m.OS, m.Arch, m.Go, m.CC, m.CFiber, rounds)
}

// Bars writes what became of the bars.
func Bars(w io.Writer, r *bench.Result) error {
	if len(r.Bars) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "bar\t\tis\tshould be")
	for _, b := range r.Bars {
		word := "met"
		if !b.Met {
			word = "MISSED"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", b.Bar, word, b.Is, b.ShouldBe)
	}
	return t.Flush()
}

// Problems has a line for each reason why subjects are missing, with the cases that it
// concerns.
func Problems(r *bench.Result) []string {
	type key struct{ subject, kind, reason string }
	var order []key
	where := map[key][]string{}
	for _, p := range r.Problems {
		k := key{p.Subject, p.Kind, p.Reason}
		if where[k] == nil {
			order = append(order, k)
		}
		where[k] = append(where[k], strings.Join(append([]string{p.Workload}, p.Params.Args()...), "/"))
	}
	var lines []string
	for _, k := range order {
		cases := where[k]
		if len(cases) > 4 {
			cases = append(cases[:3:3], fmt.Sprintf("and %d more", len(cases)-3))
		}
		lines = append(lines, fmt.Sprintf("%s %s (%s): %s", k.subject, k.kind, strings.Join(cases, ", "), k.reason))
	}
	return lines
}

// Spread is how far the rounds lie apart.
func Spread(row bench.Row) string {
	if row.Runs < 2 {
		return ""
	}
	return fmt.Sprintf("±%.0f%%", 100*row.Spread())
}

// Ratio compares with cfiber.
func Ratio(row bench.Row) string {
	if row.RatioToCFiber == nil || row.Subject == bench.CFiber {
		return ""
	}
	return human.Number(*row.RatioToCFiber) + "×"
}
