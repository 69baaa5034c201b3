package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSum(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.c":     "",
		"profile": "mode: set\nm/x.go:3.10,5.2 2 1\nm/x.go:6.10,8.2 1 0\nm/x.go:9.10,9.20 1 0\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	// Two builds, of which each reaches something, and a file that is not ours.
	gcov := `{"files": [{"file": "src/a.c", "lines": [
		{"line_number": 1, "count": 3, "branches": [{"count": 3}, {"count": 0}]},
		{"line_number": 2, "count": 0, "branches": []},
		{"line_number": 4, "count": 0, "branches": []},
		{"line_number": 7, "count": 0, "branches": []}]},
		{"file": "/usr/include/stdio.h", "lines": [{"line_number": 1, "count": 1}]}]}
		{"files": [{"file": "/tmp/a.c", "lines": [
		{"line_number": 1, "count": 1, "branches": [{"count": 0}, {"count": 1}]},
		{"line_number": 7, "count": 5, "branches": [{"count": 0}]}]}]}`
	c := coverage{}
	if err := c.readGcov(strings.NewReader(gcov), dir); err != nil {
		t.Fatal(err)
	}
	if err := c.readProfile(filepath.Join(dir, "profile"), "m"); err != nil {
		t.Fatal(err)
	}
	a := filepath.Join(dir, "a.c")
	if got := c.count(a); got != [4]int{2, 4, 2, 3} {
		t.Errorf("%v", got)
	}
	if got := c.unreached(a); got != "2-4" {
		t.Errorf("%q", got)
	}
	if got := c.count("x.go"); got != [4]int{1, 3, 0, 0} {
		t.Errorf("%v", got)
	}
	if got := c.unreached("x.go"); got != "7-9" {
		t.Errorf("%q", got)
	}
	var out strings.Builder
	c.print(&out)
	for _, want := range []string{"x.go", "3/7", "not reached:", "x.go: 7-9"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q lacks %q", out.String(), want)
		}
	}
}

func TestNotGcov(t *testing.T) {
	if err := (coverage{}).readGcov(strings.NewReader("gcov: no such file"), "."); err == nil {
		t.Error("read what is not JSON")
	}
	if err := (coverage{}).readProfile(filepath.Join(t.TempDir(), "none"), "m"); err == nil {
		t.Error("read what is not there")
	}
}
