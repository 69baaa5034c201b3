// Command covsum reads what gcov --json-format --stdout prints, any number of times over, and the
// profiles of go test -coverprofile, and prints for each source file how much of it has been
// reached by any of them, then which lines have not.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func main() {
	module := flag.String("module", "", "the Go module's `path`, which profiles have before a file's")
	root := flag.String("c", "csrc", "the `folder` of the C files")
	flag.Parse()
	c := coverage{}
	err := c.readGcov(os.Stdin, *root)
	for _, path := range flag.Args() {
		err = cmp.Or(err, c.readProfile(path, *module))
	}
	if err == nil && len(c) == 0 {
		err = errors.New("nothing has been counted")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "covsum:", err)
		os.Exit(1)
	}
	c.print(os.Stdout)
}

// coverage is by file, then by line.
type coverage map[string]map[int]*line

type line struct {
	reached  bool
	branches []bool // of those that lead on from it: taken. Go's profiles have none
}

func (c coverage) line(file string, n int) *line {
	if c[file] == nil {
		c[file] = map[int]*line{}
	}
	if c[file][n] == nil {
		c[file][n] = new(line)
	}
	return c[file][n]
}

// gcovOutput is the part of gcov's JSON that matters here.
type gcovOutput struct {
	Files []struct {
		File  string
		Lines []struct {
			Number   int `json:"line_number"`
			Count    uint64
			Branches []struct{ Count uint64 }
		}
	}
}

func (c coverage) readGcov(r io.Reader, root string) error {
	for d := json.NewDecoder(r); ; {
		var out gcovOutput
		if err := d.Decode(&out); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		for _, f := range out.Files {
			// cgo compiles with other paths, but no two files there have one name.
			name := filepath.Join(root, filepath.Base(f.File))
			if _, err := os.Stat(name); err != nil {
				continue
			}
			for _, l := range f.Lines {
				branches := make([]bool, len(l.Branches))
				for i, b := range l.Branches {
					branches[i] = b.Count > 0
				}
				c.line(name, l.Number).add(l.Count > 0, branches)
			}
		}
	}
}

// add counts what one more has reached. A line may be compiled in several ways, with other branches:
// then the way with the most taken counts.
func (l *line) add(reached bool, branches []bool) {
	l.reached = l.reached || reached
	if len(branches) != len(l.branches) {
		if taken(branches) > taken(l.branches) || len(l.branches) == 0 {
			l.branches = branches
		}
		return
	}
	for i, b := range branches {
		l.branches[i] = l.branches[i] || b
	}
}

func taken(branches []bool) int {
	n := 0
	for _, b := range branches {
		if b {
			n++
		}
	}
	return n
}

// readProfile reads lines like module/file.go:12.30,14.3 2 1: from, to, statements, count.
func (c coverage) readProfile(path, module string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		name, rest, ok := strings.Cut(strings.TrimPrefix(s.Text(), module+"/"), ":")
		if !ok || name == "mode" {
			continue
		}
		var from, to, fromColumn, toColumn, statements, count int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &from, &fromColumn, &to, &toColumn, &statements, &count); err != nil {
			return fmt.Errorf("%s: %q: %w", path, s.Text(), err)
		}
		if statements == 0 {
			continue
		}
		// A block begins behind the brace and ends on the line of the next.
		for n := min(from+1, to); n < max(to, min(from+1, to)+1); n++ {
			c.line(name, n).add(count > 0, nil)
		}
	}
	return nil
}

func (c coverage) print(w io.Writer) {
	fmt.Fprintf(w, "%-28s %18s %20s\n", "file", "lines reached", "branches taken")
	var all [4]int
	files := slices.Sorted(maps.Keys(c))
	for _, name := range files {
		n := c.count(name)
		printRow(w, name, n)
		for i := range all {
			all[i] += n[i]
		}
	}
	printRow(w, "all", all)
	fmt.Fprintln(w, "\nnot reached:")
	for _, name := range files {
		if missing := c.unreached(name); missing != "" {
			fmt.Fprintf(w, "%s: %s\n", name, missing)
		}
	}
}

// count returns lines reached and lines, branches taken and branches.
func (c coverage) count(name string) (n [4]int) {
	for _, l := range c[name] {
		if l.reached {
			n[0]++
		}
		n[1]++
		n[2] += taken(l.branches)
		n[3] += len(l.branches)
	}
	return n
}

func printRow(w io.Writer, name string, n [4]int) {
	fmt.Fprintf(w, "%-28s %s %s\n", name, share(n[0], n[1]), share(n[2], n[3]))
}

func share(n, of int) string {
	if of == 0 {
		return fmt.Sprintf("%20s", "")
	}
	return fmt.Sprintf("%6d/%-6d %5.1f%%", n, of, 100*float64(n)/float64(of))
}

// unreached lists lines, those in a row as 3-7. Lines without code between them do not part a row.
func (c coverage) unreached(name string) string {
	var list []string
	from, to := 0, 0
	flush := func() {
		switch {
		case from == 0:
		case from == to:
			list = append(list, strconv.Itoa(from))
		default:
			list = append(list, fmt.Sprintf("%d-%d", from, to))
		}
		from = 0
	}
	for _, n := range slices.Sorted(maps.Keys(c[name])) {
		switch {
		case c[name][n].reached:
			flush()
		case from == 0:
			from, to = n, n
		default:
			to = n
		}
	}
	flush()
	return strings.Join(list, " ")
}
