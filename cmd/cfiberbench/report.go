package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/report"
)

// makeReport takes -o before, between and after the files.
func makeReport(args []string) error {
	set := newFlags("report")
	name := set.String("o", "report.html", "")
	var files []string
	for len(args) > 0 {
		if err := set.Parse(args); err != nil {
			return flagError(err)
		}
		if args = set.Args(); len(args) > 0 {
			files, args = append(files, args[0]), args[1:]
		}
	}
	if len(files) == 0 {
		return wrong("report wants files that run -format json wrote")
	}
	result, err := report.Read(files)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := report.Write(&page, result); err != nil {
		return err
	}
	if err := os.WriteFile(*name, page.Bytes(), 0o666); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "wrote", *name)
	return nil
}
