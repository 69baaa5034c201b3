package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
)

// The test's own executable is what run starts as subjects and generators.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "subject" || os.Args[1] == "generate") {
		main()
	}
	m.Run()
}

func TestBadArguments(t *testing.T) {
	dir := t.TempDir()
	for args, part := range map[string]string{
		"":                                "which command?",
		"measure":                         `no command "measure"`,
		"run -count 0":                    "at least one round",
		"run -count x":                    "invalid value",
		"run -limit -1s":                  "more than nothing",
		"run -format xml":                 "text, bench and json",
		"run -run (":                      "missing closing )",
		"run -run nosuchcase":             "matches no case",
		"run -peers nosuchpeer":           "there is no such peer; there are all, none",
		"run extra":                       `unexpected argument "extra"`,
		"run -nosuchflag":                 "flag provided but not defined",
		"list extra":                      `unexpected argument "extra"`,
		"report":                          "wants files",
		"report -nosuchflag x":            "flag provided but not defined",
		"subject go":                      "NAME and a WORKLOAD",
		"subject go yield n":              "not of the form key=value",
		"generate load":                   "wants the word echo",
		"run -o " + dir + "/no/such/file": "",
	} {
		err := dispatch(context.Background(), strings.Fields(args), &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: error %v, want one with %q", args, err, part)
			continue
		}
		if mistaken := errors.As(err, &argumentError{}); mistaken != (part != "") {
			t.Errorf("%s: error of type %T", args, err)
		}
	}
	for args, part := range map[string]string{
		"subject nobody yield":          `no subject "nobody"`,
		"subject go nothing":            "there is no nothing of go",
		"subject go yield n=many":       "not a whole number",
		"subject go timers seconds=-1":  "not a time",
		"subject cfiber nosuchworkload": "there is no nosuchworkload of cfiber",
	} {
		err := dispatch(context.Background(), strings.Fields(args), &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: error %v, want one with %q", args, err, part)
		}
	}
}

func TestList(t *testing.T) {
	var out bytes.Buffer
	if err := dispatch(context.Background(), []string{"list"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"yield/fibers=2", "busy/echo/conns=100/busy=1", "C functions on fibers", "cfiber go"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// From subjects to a page, as a user would.
func TestQuickRun(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "r.json")
	args := []string{"run", "-quick", "-peers", "none", "-run", "^(switch|yield|memory|echo/conns=10)$|^(yield|memory|echo)/[^/]*$", "-format", "json", "-o", name}
	if err := dispatch(context.Background(), args, os.Stdout); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var r bench.Result
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, row := range r.Rows {
		if row.Value < 0 && row.Metric != "pagetables" || row.Runs != 1 {
			t.Errorf("%+v", row)
		}
		if row.Subject == bench.CFiber && row.Value > 0 {
			found[row.Case()+" "+row.Metric] = true
		}
	}
	wanted := []string{"switch time", "yield/fibers=2 time", "echo/conns=10 p99"}
	if runtime.GOOS == "linux" {
		wanted = append(wanted, "memory/n=1000 total")
	}
	for _, want := range wanted {
		if !found[want] {
			t.Errorf("cfiber has no number of %s", want)
		}
	}
	page := filepath.Join(dir, "r.html")
	if err := dispatch(context.Background(), []string{"report", name, "-o", page}, os.Stdout); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(page); err != nil || !bytes.Contains(text, []byte("<svg")) {
		t.Errorf("the page has no plot, %v", err)
	}
}

// One that is interrupted says so, and does not show half a measurement.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := dispatch(ctx, []string{"run", "-quick", "-peers", "none", "-run", "^switch$"}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("error %v", err)
	}
}
