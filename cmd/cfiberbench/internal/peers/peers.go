// Package peers compiles the programs that cfiber is measured against.
package peers

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// A Peer is the source of a subject.
type Peer struct {
	Name      string // what the source says, or the file's without its extension
	File      string
	Packages  []string // to install, as Debian calls them
	Flags     []string // for the compiler, and for the linker
	Workloads []string
}

const marker = "cfiberbench:"

// Find returns the peers whose sources are in fsys, by name.
func Find(fsys fs.FS) ([]Peer, error) {
	files, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, err
	}
	var all []Peer
	for _, f := range files {
		ext := path.Ext(f.Name())
		if ext != ".c" && ext != ".cc" {
			continue
		}
		text, err := fs.ReadFile(fsys, f.Name())
		if err != nil {
			return nil, err
		}
		p, err := parse(header(string(text)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		p.File, p.Name = f.Name(), cmp.Or(p.Name, strings.TrimSuffix(f.Name(), ext))
		all = append(all, p)
	}
	return all, nil
}

// header is the first paragraph of the comment that a source starts with, as one line.
func header(source string) string {
	var words []string
	for line := range strings.Lines(source) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "//")
		if text = strings.TrimSpace(text); !ok || text == "" {
			break
		}
		words = append(words, text)
	}
	return strings.Join(words, " ")
}

// parse reads a header such as
//
//	// cfiberbench: name=x pkg=libx-dev flags=-lx -ly workloads=yield,spawn
//
// A word without = belongs to the value before it.
func parse(line string) (Peer, error) {
	var p Peer
	_, rest, ok := strings.Cut(line, marker)
	if !ok {
		return p, fmt.Errorf("it does not begin with // %s", marker)
	}
	key := ""
	for _, word := range strings.Fields(rest) {
		value := word
		for _, k := range []string{"name", "pkg", "flags", "workloads"} {
			if v, ok := strings.CutPrefix(word, k+"="); ok {
				key, value = k, v
			}
		}
		values := slices.DeleteFunc(strings.Split(value, ","), func(s string) bool { return s == "" })
		switch key {
		case "name":
			p.Name = value
		case "pkg":
			p.Packages = append(p.Packages, values...)
		case "workloads":
			p.Workloads = append(p.Workloads, values...)
		case "flags":
			if value != "" {
				p.Flags = append(p.Flags, value) // which may have commas: -Wl,…
			}
		default:
			return p, fmt.Errorf("%q is none of name=, pkg=, flags= and workloads=", word)
		}
	}
	if len(p.Workloads) == 0 {
		return p, errors.New("its first lines name no workloads")
	}
	return p, nil
}

// A Builder compiles peers into a folder and keeps them there.
type Builder struct {
	Sources fs.FS
	Dir     string
	CC, CXX string // "": what the environment says, or cc and c++

	once sync.Once
	sum  []byte // of all sources
	err  error
}

// NewBuilder returns one that keeps its programs in the user's cache folder.
func NewBuilder(sources fs.FS) (*Builder, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return &Builder{Sources: sources, Dir: filepath.Join(dir, "cfiberbench")}, nil
}

func (b *Builder) compiler(p Peer) string {
	if path.Ext(p.File) == ".cc" {
		return cmp.Or(b.CXX, os.Getenv("CXX"), "c++")
	}
	return cmp.Or(b.CC, os.Getenv("CC"), "cc")
}

func (b *Builder) command(p Peer, source, program string) []string {
	args := strings.Fields(b.compiler(p))
	if path.Ext(p.File) == ".cc" {
		args = append(args, "-std=gnu++17")
	} else {
		args = append(args, "-std=gnu11")
	}
	args = append(args, "-O3", "-DNDEBUG", "-pthread", "-o", program, source)
	return append(args, p.Flags...)
}

// Build returns the program of a peer. The same sources are compiled once.
func (b *Builder) Build(p Peer) (string, error) {
	b.once.Do(func() { b.sum, b.err = digest(b.Sources) })
	if b.err != nil {
		return "", b.err
	}
	h := sha256.New()
	h.Write(b.sum)
	fmt.Fprintln(h, b.command(p, "", ""))
	dir := filepath.Join(b.Dir, fmt.Sprintf("%s-%.12x", p.Name, h.Sum(nil)))
	program := filepath.Join(dir, p.Name)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(b.Dir, 0o777); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(b.Dir, p.Name+"-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := b.compile(p, work); err != nil {
		return "", err
	}
	// Two that build the same at once end with either's.
	if err := os.Rename(work, dir); err != nil {
		if _, err := os.Stat(program); err != nil {
			return "", err
		}
	}
	return program, nil
}

func (b *Builder) compile(p Peer, dir string) error {
	sources := filepath.Join(dir, "src")
	if err := os.CopyFS(sources, b.Sources); err != nil {
		return err
	}
	args := b.command(p, filepath.Join(sources, p.File), filepath.Join(dir, p.Name))
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %s", err, firstError(string(out)))
	}
	return nil
}

// firstError is the line of a compiler's output that says what is wrong.
func firstError(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, line := range lines {
		if strings.Contains(line, "error:") || strings.Contains(line, "cannot find") {
			return strings.TrimSpace(line)
		}
	}
	return lines[0]
}

// digest is a sum of all files, the headers included.
func digest(fsys fs.FS) ([]byte, error) {
	h := sha256.New()
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(fsys, name)
		fmt.Fprintln(h, name, len(text))
		h.Write(text)
		return err
	})
	return h.Sum(nil), err
}
