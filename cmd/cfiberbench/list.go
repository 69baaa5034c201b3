package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
)

func list(args []string, stdout io.Writer) error {
	set := newFlags("list")
	if err := set.Parse(args); err != nil {
		return flagError(err)
	}
	if set.NArg() > 0 {
		return wrong("list: unexpected argument %q", set.Arg(0))
	}
	all, err := allSubjects([]string{"all"})
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "case\tsubjects")
	for _, c := range bench.Cases(runtime.NumCPU(), false) {
		var names []string
		for _, s := range all {
			if s.Does(c) && s.Absent == "" {
				names = append(names, s.Name)
			}
		}
		fmt.Fprintf(t, "%s\t%s\n", c.Name(), strings.Join(names, " "))
	}
	fmt.Fprintln(t, "\t\nworkload\twhat is measured")
	for _, w := range bench.Workloads {
		fmt.Fprintf(t, "%s\t%s\n", w.Name, w.About)
	}
	fmt.Fprintln(t, "\t\nsubject\twhat it is")
	for _, s := range all {
		fmt.Fprintf(t, "%s\t%s\n", s.Name, s.About)
		if s.Absent != "" {
			fmt.Fprintf(t, "\tABSENT: %s\n", s.Absent)
		}
		var lacks []string
		for workload, reason := range s.Lacks {
			lacks = append(lacks, workload+": "+reason)
		}
		slices.Sort(lacks)
		for _, l := range lacks {
			fmt.Fprintf(t, "\tnot %s\n", l)
		}
	}
	return t.Flush()
}
