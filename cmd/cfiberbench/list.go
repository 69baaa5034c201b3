package main

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/peers"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/runner"
)

func list(args []string, stdout io.Writer) error {
	set := newFlags("list")
	packages := set.Bool("packages", false, "")
	subjectsOnly := set.Bool("subjects", false, "")
	if err := set.Parse(args); err != nil {
		return flagError(err)
	}
	if set.NArg() > 0 {
		return wrong("list: unexpected argument %q", set.Arg(0))
	}
	if *packages {
		return listPackages(stdout)
	}
	all, err := allSubjects([]string{"all"})
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(stdout, 0, 8, 2, ' ', 0)
	if !*subjectsOnly {
		listCases(t, all)
	}
	listSubjects(t, all)
	return t.Flush()
}

// listPackages has what Debian calls the packages that the peers need.
func listPackages(w io.Writer) error {
	sources, err := fs.Sub(peerSources, "peers")
	if err != nil {
		return err
	}
	found, err := peers.Find(sources)
	if err != nil {
		return err
	}
	packages := []string{"redis-server", "redis-tools"}
	for _, p := range found {
		packages = append(packages, p.Packages...)
	}
	slices.Sort(packages)
	for _, p := range slices.Compact(packages) {
		fmt.Fprintln(w, p)
	}
	return nil
}

func listCases(w io.Writer, all []*runner.Subject) {
	fmt.Fprintln(w, "case\tsubjects")
	for _, c := range bench.Cases(runtime.NumCPU(), false) {
		var names []string
		for _, s := range all {
			if s.Does(c) && s.Absent == "" {
				names = append(names, s.Name)
			}
		}
		fmt.Fprintf(w, "%s\t%s\n", c.Name(), strings.Join(names, " "))
	}
	fmt.Fprintln(w, "\t\nworkload\twhat is measured")
	for _, workload := range bench.Workloads {
		fmt.Fprintf(w, "%s\t%s\n", workload.Name, workload.About)
	}
	fmt.Fprintln(w, "\t")
}

func listSubjects(w io.Writer, all []*runner.Subject) {
	fmt.Fprintln(w, "subject\twhat it is")
	for _, s := range all {
		fmt.Fprintf(w, "%s\t%s\n", s.Name, s.About)
		if s.Absent != "" {
			fmt.Fprintf(w, "\tABSENT: %s\n", s.Absent)
		}
		for _, workload := range slices.Sorted(maps.Keys(s.Lacks)) {
			fmt.Fprintf(w, "\tnot %s: %s\n", workload, s.Lacks[workload])
		}
	}
}
