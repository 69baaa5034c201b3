// Package report makes one page of results, with plots.
package report

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/human"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/output"
)

// Read reads results that run -format json wrote. What several measured of the same case is
// taken from the last.
func Read(files []string) (*bench.Result, error) {
	var all *bench.Result
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var r bench.Result
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s is not what run -format json writes: %w", file, err)
		}
		if len(r.Rows) == 0 {
			return nil, fmt.Errorf("%s has no rows", file)
		}
		if all == nil {
			all = &r
		} else if err := merge(all, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	if all == nil {
		return nil, errors.New("no files")
	}
	bench.SetRatios(all.Rows)
	all.Bars = bench.Judge(all.Rows)
	return all, nil
}

// merge puts what r has in place of what all has of the same.
func merge(all, r *bench.Result) error {
	if all.Machine.CPU != r.Machine.CPU || all.Machine.CPUs != r.Machine.CPUs {
		return errors.New("it is from another machine than the files before it")
	}
	measured := map[string]bool{}
	for _, row := range r.Rows {
		measured[row.Case()+" "+row.Subject] = true
	}
	all.Rows = slices.DeleteFunc(all.Rows, func(row bench.Row) bool {
		return measured[row.Case()+" "+row.Subject]
	})
	all.Rows = append(all.Rows, r.Rows...)
	all.Problems = append(all.Problems, r.Problems...)
	all.Seconds += r.Seconds
	all.Rounds = min(all.Rounds, r.Rounds)
	all.Quick = all.Quick || r.Quick
	all.Command += "; " + r.Command
	all.Machine = r.Machine
	all.Started = r.Started
	return nil
}

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"number": human.Number, "human": human.Unit,
	"spread": func(r *bench.Row) string { return output.Spread(*r) },
	"ratio":  func(r *bench.Row) string { return output.Ratio(*r) },
	"gib":    func(n int64) string { return fmt.Sprintf("%.0f GiB", float64(n)/(1<<30)) },
}).Parse(pageText))

// Write writes the page.
func Write(w io.Writer, r *bench.Result) error {
	sections, err := sectionsOf(r)
	if err != nil {
		return err
	}
	return page.Execute(w, map[string]any{
		"Result": r, "Sections": sections, "Problems": output.Problems(r),
		"Missed": count(r.Bars, false), "Met": count(r.Bars, true),
	})
}

func count(bars []bench.Verdict, met bool) int {
	n := 0
	for _, b := range bars {
		if b.Met == met {
			n++
		}
	}
	return n
}

// A section is a workload.
type section struct {
	ID, Name, About string
	Plots           []figure
	Cases           []table
}

// A table has a case's numbers: a line for each subject, a column for each metric.
type table struct {
	Name    string
	Columns []string
	Lines   []line
}

type line struct {
	Subject string
	Ours    bool
	Cells   []*bench.Row // nil: it does not say
}

func sectionsOf(r *bench.Result) ([]section, error) {
	var names []string
	rows := map[string][]bench.Row{}
	for _, row := range r.Rows {
		if rows[row.Workload] == nil {
			names = append(names, row.Workload)
		}
		rows[row.Workload] = append(rows[row.Workload], row)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	var sections []section
	for _, name := range names {
		s := section{ID: strings.ReplaceAll(name, "/", "-"), Name: name, About: about(name)}
		s.Cases = tablesOf(rows[name])
		plots, err := plotsOf(name, rows[name])
		if err != nil {
			return nil, fmt.Errorf("the plot of %s: %w", name, err)
		}
		s.Plots = plots
		sections = append(sections, s)
	}
	return sections, nil
}

// place is a workload's place in the report: the variants come last.
func place(name string) int {
	group, base, variant := strings.Cut(name, "/")
	if !variant {
		base = name
	}
	i := slices.IndexFunc(bench.Workloads, func(w bench.Workload) bool { return w.Name == base })
	if i < 0 {
		i = len(bench.Workloads)
	}
	if variant {
		i += 100
		if group == "scale" {
			i += 100
		}
	}
	return i
}

func about(name string) string {
	group, base, variant := strings.Cut(name, "/")
	if !variant {
		base = name
	}
	for _, w := range bench.Workloads {
		if w.Name != base {
			continue
		}
		switch group {
		case "busy":
			return w.About + ", while goroutines keep every P busy (busy=1), or one connection in 100 makes the server compute for 5 ms (crunch=1)"
		case "scale":
			return w.About + ", on one thread and more"
		}
		return w.About
	}
	return ""
}

func tablesOf(rows []bench.Row) []table {
	var tables []table
	for i := 0; i < len(rows); {
		j := i
		for j < len(rows) && rows[j].Case() == rows[i].Case() {
			j++
		}
		tables = append(tables, tableOf(rows[i:j]))
		i = j
	}
	return tables
}

func tableOf(rows []bench.Row) table {
	t := table{Name: rows[0].Case()}
	column := map[string]int{}
	for _, row := range rows {
		title := row.Metric
		if _, ok := column[title]; !ok {
			column[title] = len(t.Columns)
			t.Columns = append(t.Columns, title)
		}
	}
	for i := range rows {
		row := &rows[i]
		k := slices.IndexFunc(t.Lines, func(l line) bool { return l.Subject == row.Subject })
		if k < 0 {
			k = len(t.Lines)
			t.Lines = append(t.Lines, line{row.Subject, row.Subject == bench.CFiber, make([]*bench.Row, len(t.Columns))})
		}
		t.Lines[k].Cells[column[row.Metric]] = row
	}
	return t
}
