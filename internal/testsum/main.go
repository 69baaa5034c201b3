// Command testsum reads what `go test -json` prints and shows what a person wants of it: the
// output of tests that failed, the reason of each that was skipped (which go test itself keeps
// to itself), and a line for each package. It ends with the number of tests, and fails if one
// failed or none ran.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	counts := flag.String("counts", "", "append a line \"passed failed skipped\" to this `file`")
	flag.Parse()
	s := newSummary(os.Stdout)
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	if *counts != "" {
		if err := s.appendTo(*counts); err != nil {
			fmt.Fprintln(os.Stderr, "testsum:", err)
			os.Exit(1)
		}
	}
	if s.passed+s.failed+s.skipped == 0 {
		fmt.Fprintln(os.Stderr, "testsum: no test ran")
		os.Exit(1)
	}
	if s.failed > 0 || s.broken {
		os.Exit(1)
	}
}

// event is a line of go test -json; see go doc test2json.
type event struct {
	Action, Package, Test, Output string
}

type test struct {
	output    []string
	hasChild  bool
	childFail bool
}

type summary struct {
	w                       io.Writer
	running                 map[string]map[string]*test // by package and name
	passed, failed, skipped int                         // tests without subtests
	broken                  bool                        // a package failed, whatever its tests did
}

func newSummary(w io.Writer) *summary {
	return &summary{w: w, running: map[string]map[string]*test{}}
}

func (s *summary) read(r io.Reader) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
				s.event(e)
			} else {
				fmt.Fprint(s.w, line) // not from a test: show it, whatever it is
			}
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (s *summary) event(e event) {
	switch {
	case e.Action == "build-output":
		fmt.Fprint(s.w, e.Output)
	case e.Action == "build-fail":
		s.broken = true
	case e.Test == "":
		s.packageEvent(e)
	default:
		s.testEvent(e)
	}
}

func (s *summary) packageEvent(e event) {
	switch e.Action {
	case "output":
		if e.Output != "PASS\n" { // the line with ok says it too
			fmt.Fprint(s.w, e.Output)
		}
	case "fail":
		s.broken = true
		// The process died under these.
		for _, t := range s.running[e.Package] {
			s.show(t)
			if !t.hasChild {
				s.failed++
			}
		}
		delete(s.running, e.Package)
	case "pass", "skip":
		delete(s.running, e.Package)
	}
}

func (s *summary) testEvent(e event) {
	tests := s.running[e.Package]
	if tests == nil {
		tests = map[string]*test{}
		s.running[e.Package] = tests
	}
	t := tests[e.Test]
	if t == nil {
		t = &test{}
		tests[e.Test] = t
	}
	var parent *test
	if i := strings.LastIndexByte(e.Test, '/'); i >= 0 {
		parent = tests[e.Test[:i]]
	}
	if parent != nil {
		parent.hasChild = true
	}
	switch e.Action {
	case "output":
		if !strings.HasPrefix(e.Output, "=== ") {
			t.output = append(t.output, e.Output)
		}
		return
	case "pass":
		if !t.hasChild {
			s.passed++
		}
	case "skip":
		if !t.hasChild {
			s.skipped++
		}
		s.show(t)
	case "fail":
		// A test fails with its subtests; it counts itself only if they are not why.
		if !t.childFail {
			s.failed++
		}
		if parent != nil {
			parent.childFail = true
		}
		s.show(t)
	default:
		return
	}
	delete(tests, e.Test)
}

func (s *summary) show(t *test) {
	for _, line := range t.output {
		fmt.Fprint(s.w, line)
	}
}

func (s *summary) appendTo(name string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, s.passed, s.failed, s.skipped); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
