package cfiber_test

// How a program gets at the module: each way that the documentation promises, done as a user
// would, with the go command in a folder of its own. The names start with TestPackaging, by
// which build.sh runs them apart from the others.
//
// They need no network once the module cache holds this module's own dependencies.

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const modulePath = "github.com/cfiber/cfiber"

// The program of most tests: C code of another module waits on a fiber. It tells from -1 that
// it was run on no fiber, which would make the rest prove nothing.
var userProgram = map[string]string{
	"main.go": `package main

/*
#include <stdint.h>
intptr_t work(void *arg);
*/
import "C"

import (
	"context"
	"fmt"
	"os"
	"unsafe"

	"github.com/cfiber/cfiber"
)

func main() {
	rt, err := cfiber.New(cfiber.Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	n, err := rt.Call(context.Background(), unsafe.Pointer(C.work), nil)
	fmt.Println("work:", n, err)
	if err := rt.Close(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
`,
	"work.c": `#include <cfiber.h>

intptr_t work(void *arg) {
  (void)arg;
  if (cfiber_self() == NULL)
    return -1;
  if (cfiber_sleep(1000000) != 0)
    return -2;
  return 42;
}
`,
}

const userOutput = "work: 42 <nil>\n"

// A program in C alone.
const cProgram = `#include <cfiber.h>
#include <stdio.h>

static intptr_t child(void *arg) {
  return cfiber_sleep(1000000) == 0 ? *(int *)arg : -1;
}

static intptr_t parent(void *arg) {
  cfiber_t *f = cfiber_spawn(child, arg, NULL);
  intptr_t result = -2;
  if (f == NULL || cfiber_join(f, &result) != 0)
    return -3;
  return result;
}

int main(void) {
  int number = 42;
  intptr_t result = -4;
  if (cfiber_run(parent, &number, NULL, &result) != 0)
    perror("cfiber_run");
  printf("work: %d\n", (int)result);
  return result != 42;
}
`

const cOutput = "work: 42\n"

func TestPackagingBlankImport(t *testing.T) {
	m := newModule(t, repository(t), map[string]string{"main.go": `package main

import (
	"fmt"

	_ "github.com/cfiber/cfiber"
)

func main() { fmt.Println("runs") }
`})
	if out := m.run(t, "go", "run", "."); out != "runs\n" {
		t.Errorf("prints %q", out)
	}
}

// The header is found by a flag in the environment; there is no linker flag.
func TestPackagingHeaderByFlag(t *testing.T) {
	for name, list := range map[string][]string{
		"module":  {"go", "list", "-m", "-f", "{{.Dir}}/csrc/include", modulePath},
		"package": {"go", "list", "-f", "{{.Dir}}", modulePath + "/csrc/include"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModule(t, repository(t), userProgram)
			dir := strings.TrimSpace(m.run(t, list[0], list[1:]...))
			m.setenv("CGO_CFLAGS", "-I"+dir)
			if out := m.run(t, "go", "run", "."); out != userOutput {
				t.Errorf("prints %q, want %q", out, userOutput)
			}
		})
	}
}

// The header is copied by the command, and the copy is committed, say.
func TestPackagingHeaderByCommand(t *testing.T) {
	m := newModule(t, repository(t), userProgram)
	m.write(t, "flags.go", "package main\n\n// #cgo CFLAGS: -I${SRCDIR}/third_party\nimport \"C\"\n")
	m.run(t, "go", "run", modulePath+"/cmd/cfiber-header", "third_party")
	if out := m.run(t, "go", "run", "."); out != userOutput {
		t.Errorf("prints %q, want %q", out, userOutput)
	}

	// The same as a tool of the module, which is how a go:generate line would name it.
	m.run(t, "go", "mod", "edit", "-tool", modulePath+"/cmd/cfiber-header")
	m.run(t, "go", "tool", "cfiber-header", "other")
	copied, err := os.ReadFile(filepath.Join(m.dir, "other", "cfiber.h"))
	if err != nil {
		t.Fatal(err)
	}
	original, err := os.ReadFile("csrc/include/cfiber.h")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(copied, original) {
		t.Error("the copy differs from csrc/include/cfiber.h")
	}
}

// Vendoring copies only what belongs to an imported package, and none of the rest may be needed.
func TestPackagingVendor(t *testing.T) {
	repo := copyRepository(t)
	m := newModule(t, repo, userProgram)
	m.run(t, "go", "mod", "tidy") // without which vendor may refuse
	m.run(t, "go", "mod", "vendor")
	if err := os.RemoveAll(repo); err != nil {
		t.Fatal(err)
	}
	m.setenv("GOFLAGS", "-mod=vendor")
	dir := strings.TrimSpace(m.run(t, "go", "list", "-f", "{{.Dir}}", modulePath+"/csrc/include"))
	if want := filepath.Join(m.dir, "vendor", filepath.FromSlash(modulePath), "csrc", "include"); dir != want {
		t.Errorf("the header's folder is %s, want %s", dir, want)
	}
	m.setenv("CGO_CFLAGS", "-I"+dir)
	if out := m.run(t, "go", "run", "."); out != userOutput {
		t.Errorf("prints %q, want %q", out, userOutput)
	}
}

// An edit of a C file, and one of the header alone, reach a program that is built again. The go
// command does not see what an -I flag leads to, so the second holds only by the imports that
// csrc/doc.go explains.
func TestPackagingEdit(t *testing.T) {
	repo := copyRepository(t)
	sources, err := filepath.Glob(filepath.Join(repo, "csrc", "*.c"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("no C files in csrc: %v", err)
	}
	source, header := sources[0], filepath.Join(repo, "csrc", "include", "cfiber.h")
	edit(t, source, `$`, "\n#include \"cfiber.h\"\n"+
		"int packaging_probe(void);\n"+
		"int packaging_probe(void) { return 1000 * CFIBER_VERSION_PATCH + 1; }\n")
	edit(t, header, `(?m)^(#define CFIBER_VERSION_PATCH) .*`, "$1 5")

	m := newModule(t, repo, map[string]string{"main.go": `package main

// int packaging_probe(void);
import "C"

import (
	"fmt"

	_ "github.com/cfiber/cfiber"
)

func main() { fmt.Println(C.packaging_probe()) }
`})
	step := func(what, want string) {
		t.Helper()
		if out := m.run(t, "go", "run", "."); out != want {
			t.Fatalf("%s: prints %q, want %q", what, out, want)
		}
	}
	step("at first", "5001\n")
	edit(t, source, `1000 \* CFIBER_VERSION_PATCH \+ 1`, "1000 * CFIBER_VERSION_PATCH + 2")
	step("after an edit of "+filepath.Base(source), "5002\n")
	edit(t, header, `(?m)^(#define CFIBER_VERSION_PATCH) .*`, "$1 6")
	step("after an edit of cfiber.h", "6002\n")
}

func TestPackagingRace(t *testing.T) {
	m := newModule(t, repository(t), map[string]string{
		"work.go": `package user

/*
#include <stdint.h>
intptr_t work(void *arg);
*/
import "C"

import "unsafe"

// cgo is not for test files.
func work() unsafe.Pointer { return unsafe.Pointer(C.work) }
`,
		"work.c": userProgram["work.c"],
		"work_test.go": `package user

import (
	"context"
	"sync"
	"testing"

	"github.com/cfiber/cfiber"
)

func TestWork(t *testing.T) {
	rt, err := cfiber.New(cfiber.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var sum int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 8 {
				n, err := rt.Call(context.Background(), work(), nil)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				sum += n
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if sum != 8*8*42 {
		t.Errorf("sum is %d", sum)
	}
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
}
`})
	m.setenv("CGO_CFLAGS", "-I"+filepath.Join(repository(t), "csrc", "include"))
	m.run(t, "go", "test", "-race", ".")
}

// Without cgo everything still builds, and New says what is wrong: there is no library, or the
// system is one where cgo is needed.
func TestPackagingNoCgo(t *testing.T) {
	m := newModule(t, repository(t), map[string]string{"main.go": `package main

import (
	"errors"
	"fmt"

	"github.com/cfiber/cfiber"
)

func main() {
	rt, err := cfiber.New(cfiber.Options{})
	fmt.Println(rt == nil, errors.Is(err, cfiber.ErrNoCgo), errors.Is(err, cfiber.ErrNoLibrary))
}
`})
	m.setenv("CGO_ENABLED", "0")
	m.setenv("CFIBER_LIBRARY", "/nowhere/libcfiber.so")
	for _, command := range []string{"vet", "build"} {
		args := append(noCgoArgs(command), modulePath, modulePath+"/csrc", modulePath+"/csrc/include")
		m.run(t, "go", args...)
	}
	want := "true false true\n"
	if !loadsLibraries() {
		want = "true true false\n"
	}
	if out := m.run(t, "go", append(noCgoArgs("run"), ".")...); out != want {
		t.Errorf("New without cgo: prints %q, want %q", out, want)
	}
}

// noCgoArgs are the first arguments of the go command without cgo. The flags are in README.md.
func noCgoArgs(command string) []string {
	switch runtime.GOOS + "/" + runtime.GOARCH {
	case "freebsd/amd64", "freebsd/arm64":
		return []string{command, "-gcflags=github.com/ebitengine/purego/internal/fakecgo=-std"}
	case "linux/riscv64":
		return []string{command, "-ldflags=-I=/lib/ld-linux-riscv64-lp64d.so.1"}
	}
	return []string{command}
}

// loadsLibraries reports whether cfiber can do without cgo here. The tags are those of
// bridge_purego.go.
func loadsLibraries() bool {
	context := build.Default
	context.CgoEnabled = false
	match, err := context.MatchFile(".", "bridge_purego.go")
	return err == nil && match
}

// A program without cgo: its C code is a library of its own, and so is the core.
var noCgoProgram = map[string]string{
	"main.go": `package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/cfiber/cfiber"
	"github.com/ebitengine/purego"
)

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// The arguments: the C code, "first" to load it before the core, and the path of the core.
func main() {
	file, first, core := os.Args[1], os.Args[2] == "first", os.Args[3]
	var handle uintptr
	load := func() {
		var err error
		handle, err = purego.Dlopen(file, purego.RTLD_NOW)
		check(err)
	}
	function := func(name string) unsafe.Pointer {
		address, err := purego.Dlsym(handle, name)
		check(err)
		return *(*unsafe.Pointer)(unsafe.Pointer(&address))
	}
	if first {
		load()
	}
	var runtimes [4]*cfiber.Runtime
	var wg sync.WaitGroup
	for i := range runtimes {
		wg.Go(func() {
			rt, err := cfiber.New(cfiber.Options{Library: core})
			check(err)
			runtimes[i] = rt
		})
	}
	wg.Wait()
	if !first {
		load()
	}
	callback, err := cfiber.NewCallback(func(n int) int {
		// Go that waits for C on a fiber of another runtime.
		m, err := runtimes[1].Call(context.Background(), function("work"), nil)
		check(err)
		return n + m
	})
	check(err)
	f, err := runtimes[0].Spawn(function("visit"), callback)
	check(err)
	n, err := f.Wait(context.Background())
	check(err)
	for _, rt := range runtimes {
		check(rt.Close())
	}
	fmt.Println("visit:", n)
}
`,
	"work.c": userProgram["work.c"] + `
intptr_t visit(void *fn) {
  if (cfiber_self() == NULL || cfiber_sleep(1000000) != 0)
    return -1;
  return ((intptr_t (*)(intptr_t))fn)(100);
}
`,
}

func TestPackagingPurego(t *testing.T) {
	m := newModule(t, repository(t), noCgoProgram) // first, for it skips in short mode
	if !loadsLibraries() {
		t.Skip("on this system cfiber needs cgo")
	}
	need(t, "bash")
	need(t, "pkg-config")
	prefix := filepath.Join(t.TempDir(), "installed")
	run(t, copyRepository(t), environ(), "bash", "build.sh", "lib", "--prefix", prefix)
	lib := filepath.Join(prefix, "lib")
	core := filepath.Join(lib, "libcfiber.so")
	if runtime.GOOS == "darwin" {
		core = filepath.Join(lib, "libcfiber.dylib")
	}
	env := append(environ(), "PKG_CONFIG_PATH="+filepath.Join(lib, "pkgconfig"))
	flags := strings.Fields(run(t, m.dir, env, "pkg-config", "--cflags", "--libs", "cfiber"))
	args := append([]string{"-Wall", "-Werror", "-shared", "-fPIC", "-o", "user.so", "work.c"}, flags...)
	run(t, m.dir, environ(), compiler(), append(args, "-Wl,-rpath,"+lib)...)
	if err := os.Rename(filepath.Join(m.dir, "work.c"), filepath.Join(m.dir, "work.c.txt")); err != nil {
		t.Fatal(err) // the go command refuses C files where there is no cgo
	}
	m.setenv("CGO_ENABLED", "0")
	m.run(t, "go", append(noCgoArgs("build"), "-o", "prog", ".")...)

	user, prog := filepath.Join(m.dir, "user.so"), filepath.Join(m.dir, "prog")
	search := "LD_LIBRARY_PATH="
	if runtime.GOOS == "darwin" {
		search = "DYLD_LIBRARY_PATH="
	}
	for name, c := range map[string]struct {
		env         string
		order, core string
	}{
		"option":      {"NOTHING=", "last", core},
		"environment": {"CFIBER_LIBRARY=" + core, "last", ""},
		"loader":      {search + lib, "last", ""},
		"brought":     {"NOTHING=", "first", ""}, // by the C code
		"both":        {"CFIBER_LIBRARY=" + core, "first", core},
	} {
		if name == "brought" && runtime.GOOS == "darwin" {
			continue // whose loader goes by paths
		}
		out := run(t, m.dir, append(m.env, c.env), prog, user, c.order, c.core)
		if want := "visit: 142\n"; out != want {
			t.Errorf("%s: prints %q, want %q", name, out, want)
		}
	}
}

// A tagged version, from a proxy: the module as a zip file, in a module cache of which it can
// change nothing.
func TestPackagingVersion(t *testing.T) {
	const version = "v0.0.1"
	m := newModule(t, "", userProgram)
	// The real cache serves the dependencies. This one is new, or it would keep the fake
	// version, and the next run would test this run's files.
	proxies := []string{
		"file://" + filepath.ToSlash(makeProxy(t, version)),
		"file://" + filepath.ToSlash(filepath.Join(goEnv(t, "GOMODCACHE"), "cache", "download")),
		goEnv(t, "GOPROXY"),
	}
	m.setenv("GOPROXY", strings.Join(proxies, ","))
	m.setenv("GOMODCACHE", t.TempDir())
	m.setenv("GOFLAGS", "-mod=mod -modcacherw") // writable, for the end of the test to remove it
	m.setenv("GOSUMDB", "off")                  // which has not heard of the fake
	bin := t.TempDir()
	m.setenv("GOBIN", bin)

	m.run(t, "go", "get", modulePath+"@"+version)
	dir := strings.TrimSpace(m.run(t, "go", "list", "-m", "-f", "{{.Dir}}", modulePath))
	m.setenv("CGO_CFLAGS", "-I"+filepath.Join(dir, "csrc", "include"))
	if out := m.run(t, "go", "run", "."); out != userOutput {
		t.Errorf("prints %q, want %q", out, userOutput)
	}

	m.run(t, "go", "install", modulePath+"/examples/redis@"+version)
	m.run(t, "go", "install", modulePath+"/cmd/cfiber-header@"+version)
	for _, name := range []string{"redis", "cfiber-header"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			t.Error(err)
		}
	}
	m.run(t, filepath.Join(bin, "cfiber-header"), "copy")
}

// What build.sh lib installs, used by a Go module and by C programs.
func TestPackagingInstalled(t *testing.T) {
	m := newModule(t, repository(t), nil) // first, for it skips in short mode
	need(t, "bash")
	need(t, "pkg-config")
	repo, prefix := copyRepository(t), filepath.Join(t.TempDir(), "installed")
	run(t, repo, environ(), "bash", "build.sh", "lib", "--prefix", prefix)
	lib := filepath.Join(prefix, "lib")
	pkgConfig := func(args ...string) []string {
		t.Helper()
		env := append(environ(), "PKG_CONFIG_PATH="+filepath.Join(lib, "pkgconfig"))
		return strings.Fields(run(t, prefix, env, "pkg-config", args...))
	}

	t.Run("cgo", func(t *testing.T) {
		for name, text := range userProgram {
			m.write(t, name, text)
		}
		m.write(t, "flags.go", "package main\n\n// #cgo pkg-config: cfiber-headers\nimport \"C\"\n")
		m.setenv("PKG_CONFIG_PATH", filepath.Join(lib, "pkgconfig"))
		if out := m.run(t, "go", "run", "."); out != userOutput {
			t.Errorf("prints %q, want %q", out, userOutput)
		}
	})

	// link builds and runs the C program with the flags after the source.
	link := func(t *testing.T, flags ...string) {
		t.Helper()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "prog.c"), []byte(cProgram), 0o666); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"-Wall", "-Werror", "-o", "prog", "prog.c"}, flags...)
		run(t, dir, environ(), compiler(), args...)
		if out := run(t, dir, environ(), filepath.Join(dir, "prog")); out != cOutput {
			t.Errorf("prints %q, want %q", out, cOutput)
		}
	}
	t.Run("shared", func(t *testing.T) {
		link(t, append(pkgConfig("--cflags", "--libs", "cfiber"), "-Wl,-rpath,"+lib)...)
	})
	t.Run("archive", func(t *testing.T) {
		// Named by its path, since of two libraries -l takes the shared one.
		flags := append(pkgConfig("--cflags", "cfiber"), filepath.Join(lib, "libcfiber.a"))
		for _, flag := range pkgConfig("--static", "--libs-only-l", "cfiber") {
			if flag != "-lcfiber" {
				flags = append(flags, flag)
			}
		}
		link(t, flags...)
	})
	t.Run("static", func(t *testing.T) {
		libc := strings.TrimSpace(run(t, prefix, environ(), compiler(), "-print-file-name=libc.a"))
		if !filepath.IsAbs(libc) {
			t.Skip("this system has no static C library")
		}
		link(t, append(pkgConfig("--static", "--cflags", "--libs", "cfiber"), "-static")...)
	})

	// The shared library exports the functions of the two headers, all of them and nothing else.
	t.Run("library", func(t *testing.T) {
		f, err := elf.Open(filepath.Join(lib, "libcfiber.so"))
		if errors.Is(err, fs.ErrNotExist) && runtime.GOOS == "darwin" {
			t.Skip("not ELF")
		} else if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		symbols, err := f.DynamicSymbols()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range symbols {
			if s.Section != elf.SHN_UNDEF {
				got = append(got, s.Name)
			}
		}
		slices.Sort(got)
		if want := declared(t); !slices.Equal(got, want) {
			t.Errorf("exported: %q\ndeclared: %q", got, want)
		}
		// One assembly file without its note makes the stacks of the whole program executable.
		for _, p := range f.Progs {
			if p.Type == elf.PT_GNU_STACK && p.Flags&elf.PF_X != 0 {
				t.Error("wants an executable stack")
			}
		}
		if names, err := f.DynString(elf.DT_SONAME); err != nil || len(names) != 1 || names[0] != "libcfiber.so.0" {
			t.Errorf("soname is %q, %v", names, err)
		}
	})

	// As a packager does it: files go below $DESTDIR, and nothing in them knows.
	t.Run("DESTDIR", func(t *testing.T) {
		stage := t.TempDir()
		run(t, repo, append(environ(), "DESTDIR="+stage), "bash", "build.sh", "lib", "--prefix=/opt/cfiber")
		pc, err := os.ReadFile(filepath.Join(stage, "opt", "cfiber", "lib", "pkgconfig", "cfiber.pc"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(pc, []byte("prefix=/opt/cfiber\n")) || bytes.Contains(pc, []byte(stage)) {
			t.Errorf("cfiber.pc is\n%s", pc)
		}
	})
}

// The header needs nothing included before it and is C99 and C++ without a warning.
func TestPackagingHeader(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct{ language, std string }{{"c", "c99"}, {"c", "c11"}, {"c++", "c++11"}} {
		name := filepath.Join(dir, c.std)
		if err := os.WriteFile(name, []byte("#include <cfiber.h>\nint x;\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		cc := compiler()
		if c.language == "c++" {
			cc = "c++"
			need(t, cc)
		}
		run(t, ".", environ(), cc, "-fsyntax-only", "-x", c.language, "-std="+c.std,
			"-Wall", "-Wextra", "-pedantic", "-Werror", "-Icsrc/include", name)
	}
}

// Go leaves out a file whose name ends in another architecture than the one it builds for, and so
// would a switch whose name is not Go's word for its architecture.
func TestPackagingSwitches(t *testing.T) {
	t.Parallel()
	archs := []string{"386", "amd64", "arm", "arm64", "loong64", "ppc64le", "riscv64", "s390x"}
	var files []string
	for _, arch := range archs {
		env := append(environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=1")
		built := strings.Fields(run(t, ".", env, "go", "list", "-f", `{{join .CFiles " "}} {{join .SFiles " "}}`, "./csrc"))
		for _, file := range []string{"switch_" + arch + ".S", "switch_" + arch + ".c"} {
			files = append(files, filepath.Join("csrc", file))
			if !slices.Contains(built, file) {
				t.Errorf("on %s, %s is not built: %q", arch, file, built)
			}
		}
	}
	for _, pattern := range []string{"csrc/switch_*.S", "csrc/switch_*.c"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range found {
			if file != "csrc/switch_ucontext.c" && !slices.Contains(files, file) {
				t.Errorf("%s is for none of %q", file, archs)
			}
		}
	}
}

// ---- Helpers ----

// module is a Go module of a user, in a temporary folder.
type module struct {
	dir string
	env []string
}

// newModule makes one that takes cfiber from the folder repo ("" for one that does not know
// where from) and consists of the files. It skips the test in short mode, and lets it run
// beside others.
func newModule(t *testing.T, repo string, files map[string]string) *module {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a module of its own, which is slow")
	}
	t.Parallel()
	m := &module{dir: t.TempDir(), env: environ()}
	// The go command prints real paths.
	dir, err := filepath.EvalSymlinks(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	m.dir = dir
	mod := "module example.test/user\n\ngo 1.25.0\n"
	if repo != "" {
		mod += "\nrequire " + modulePath + " v0.0.0\n\nreplace " + modulePath + " => " + filepath.ToSlash(repo) + "\n"
		// What this module trusts, a user of it may trust without asking the network.
		sum, err := os.ReadFile("go.sum")
		if err != nil {
			t.Fatal(err)
		}
		m.write(t, "go.sum", string(sum))
	}
	m.write(t, "go.mod", mod)
	for name, text := range files {
		m.write(t, name, text)
	}
	m.setenv("GOFLAGS", "-mod=mod") // let it add what a user's go get would have
	return m
}

func (m *module) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func (m *module) setenv(key, value string) { m.env = append(m.env, key+"="+value) }

// run runs a command in the module and returns what it prints on its standard output.
func (m *module) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	return run(t, m.dir, m.env, name, args...)
}

// run runs a command and returns its standard output. It ends the test if the command fails.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// environ is this process's environment less what would change how go or build.sh builds.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(s string) bool {
		key, _, _ := strings.Cut(s, "=")
		return strings.HasPrefix(key, "CGO_") || strings.HasPrefix(key, "CFIBER_") ||
			slices.Contains([]string{"GOFLAGS", "GOWORK", "GOBIN", "CFLAGS", "LDFLAGS", "DESTDIR",
				"PKG_CONFIG_PATH"}, key)
	})
}

func goEnv(t *testing.T, key string) string {
	t.Helper()
	return strings.TrimSpace(run(t, ".", environ(), "go", "env", key))
}

func compiler() string {
	if cc := os.Getenv("CC"); cc != "" {
		return cc
	}
	return "cc"
}

func need(t *testing.T, command string) {
	t.Helper()
	if _, err := exec.LookPath(command); err != nil {
		t.Skip(err)
	}
}

// repository is this module's folder.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// repositoryFiles lists the files of this module, slash-separated and relative: those that are
// committed or would be, so that a file that .gitignore hides is missed here too; or, where
// there is no git, all but what build.sh makes.
func repositoryFiles(t *testing.T) []string {
	t.Helper()
	if _, err := os.Stat(".git"); err == nil {
		if _, err := exec.LookPath("git"); err == nil {
			out := run(t, ".", environ(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
			return slices.DeleteFunc(strings.Split(out, "\x00"), func(name string) bool {
				_, err := os.Stat(name) // deleted, but not committed so
				return name == "" || err != nil
			})
		}
	}
	var files []string
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".git" || name == "build":
			return fs.SkipDir
		case d.Type().IsRegular():
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// copyRepository copies this module to a temporary folder and returns that.
func copyRepository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range repositoryFiles(t) {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// edit replaces what the pattern matches in a file, which it must.
func edit(t *testing.T, name, pattern, replacement string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	re := regexp.MustCompile(pattern)
	if !re.Match(text) {
		t.Fatalf("%s has nothing like %s", name, pattern)
	}
	if err := os.WriteFile(name, re.ReplaceAll(text, []byte(replacement)), 0o666); err != nil {
		t.Fatal(err)
	}
}

// makeProxy makes a folder that serves this module as the version, in the layout that
// `go help goproxy` describes, and returns it.
func makeProxy(t *testing.T, version string) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, filepath.FromSlash(modulePath), "@v")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	files := repositoryFiles(t)
	// A folder with a go.mod of its own is another module, and not in this one's zip.
	var nested []string
	for _, name := range files {
		if path.Base(name) == "go.mod" && name != "go.mod" {
			nested = append(nested, path.Dir(name)+"/")
		}
	}
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, name := range files {
		if slices.ContainsFunc(nested, func(dir string) bool { return strings.HasPrefix(name, dir) }) {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := w.Create(modulePath + "@" + version + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"list":            []byte(version + "\n"),
		version + ".info": fmt.Appendf(nil, `{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, version),
		version + ".mod":  mod,
		version + ".zip":  archive.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// declared lists the functions that cfiber.h and bridge.h declare, sorted.
func declared(t *testing.T) []string {
	t.Helper()
	var text []byte
	for _, name := range []string{"csrc/include/cfiber.h", "csrc/bridge.h"} {
		header, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, header...)
	}
	text = regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAll(text, nil)
	var names []string
	for _, m := range regexp.MustCompile(`\b(cfiber_\w+)\(`).FindAllSubmatch(text, -1) {
		names = append(names, string(m[1]))
	}
	slices.Sort(names)
	return slices.Compact(names)
}
