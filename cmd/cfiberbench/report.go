package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/report"
)

// readResults parses flags that stand before, between and after the files, and reads these.
func readResults(set *flag.FlagSet, args []string) (*bench.Result, error) {
	var files []string
	for len(args) > 0 {
		if err := set.Parse(args); err != nil {
			return nil, flagError(err)
		}
		if args = set.Args(); len(args) > 0 {
			files, args = append(files, args[0]), args[1:]
		}
	}
	if len(files) == 0 {
		return nil, wrong("%s wants files that run -format json wrote", set.Name())
	}
	return report.Read(files)
}

func makeReport(args []string) error {
	set := newFlags("report")
	name := set.String("o", "report.html", "")
	result, err := readResults(set, args)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := report.Write(&page, result); err != nil {
		return err
	}
	return writeFile(*name, page.Bytes())
}

func makeSummary(args []string) error {
	set := newFlags("summary")
	into := set.String("into", "", "")
	plot := set.String("plot", "", "")
	result, err := readResults(set, args)
	if err != nil {
		return err
	}
	if *into == "" || *plot == "" {
		return wrong("summary wants -into and -plot")
	}
	document, err := os.ReadFile(*into)
	if err != nil {
		return err
	}
	if document, err = report.Insert(document, []byte(report.Markdown(result))); err != nil {
		return fmt.Errorf("%s: %w", *into, err)
	}
	svg, err := report.Plot(result)
	if err != nil {
		return err
	}
	if err := writeFile(*plot, svg); err != nil {
		return err
	}
	return writeFile(*into, document)
}

func writeFile(name string, content []byte) error {
	if err := os.WriteFile(name, content, 0o666); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "wrote", name)
	return nil
}
