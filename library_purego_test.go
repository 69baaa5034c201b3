//go:build !cgo && ((darwin && !ios && (amd64 || arm64)) || (freebsd && (amd64 || arm64)) || (netbsd && (amd64 || arm64)) || (linux && !android && (amd64 || arm64 || loong64 || ppc64le || riscv64)))

package cfiber

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
)

// sharedLibrary compiles a C text and returns the path of the library.
func sharedLibrary(t *testing.T, text string) string {
	t.Helper()
	return compile(t, cmp.Or(os.Getenv("CC"), "cc"), "fake.c", text)
}

func compile(t *testing.T, compiler, name, text string, flags ...string) string {
	t.Helper()
	source := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(source, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	path := strings.TrimSuffix(source, filepath.Ext(source)) + ".so"
	args := append([]string{"-shared", "-fPIC", "-o", path, source}, flags...)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// fakeCore is a library that has the functions named, all of which end the program but those
// that the checks call.
func fakeCore(version int, symbols []coreSymbol) string {
	var b strings.Builder
	fmt.Fprintf(&b, `#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
struct entry { const char *name; uint32_t offset, size; };
static const struct entry table[] = {{"cfiber.wait", 8, 8}};
uint32_t cfiber_version(void) { return %d; }
const struct entry *cfiber_layout(size_t *n) { *n = 1; return table; }
`, version)
	for _, s := range symbols {
		if s.name != "cfiber_version" && s.name != "cfiber_layout" {
			fmt.Fprintf(&b, "void %s(void) { abort(); }\n", s.name)
		}
	}
	return b.String()
}

// What does not fit is found out, whatever it is, before anything of it is used.
func TestLibraryRefused(t *testing.T) {
	all := new(coreFuncs).symbols()
	text := filepath.Join(t.TempDir(), "text.so")
	if err := os.WriteFile(text, []byte("not a library"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path  string
		want  error
		words []string
	}{
		"no file":      {"/nowhere/libcfiber.so", ErrNoLibrary, []string{"/nowhere/libcfiber.so: "}},
		"no library":   {text, ErrNoLibrary, []string{text + ": "}},
		"another one":  {sharedLibrary(t, "int x;"), ErrMismatch, []string{"lacks cfiber_version"}},
		"old":          {sharedLibrary(t, fakeCore(3, nil)), ErrMismatch, []string{"fake.so has version 0.0.3, ", versionText(coreVersion)}},
		"incomplete":   {sharedLibrary(t, fakeCore(coreVersion, all[:len(all)-1])), ErrMismatch, []string{"lacks cfiber_bridge_nothing"}},
		"other layout": {sharedLibrary(t, fakeCore(coreVersion, all)), ErrMismatch, []string{"fake.so: cfiber", "in Go"}},
	} {
		for _, fromEnv := range []bool{false, true} {
			path := c.path
			if fromEnv {
				t.Setenv(libraryVariable, path)
				path = ""
			}
			before := core
			err := loadLibrary(path)
			if !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, word := range c.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%s: no %q in %q", name, word, err)
				}
			}
			if core != before {
				t.Fatalf("%s: is in use", name)
			}
		}
	}
}

// A program has one libcfiber, by whatever name.
func TestLibraryOnce(t *testing.T) {
	rt, err := New(Options{Library: os.Getenv(libraryVariable)})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	link := filepath.Join(t.TempDir(), "link.so")
	if err := os.Symlink(library.path, link); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			rt, err := New(Options{Library: []string{"", link}[i%2]})
			if err != nil {
				t.Error(err)
				return
			}
			if err := rt.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()

	text, err := os.ReadFile(library.path)
	if err != nil {
		t.Fatal(err)
	}
	second := filepath.Join(t.TempDir(), "second.so")
	if err := os.WriteFile(second, text, 0o777); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{second: ErrMismatch, "/nowhere/libcfiber.so": ErrNoLibrary} {
		rt, err := New(Options{Library: path})
		var e *Error
		if rt != nil || !errors.Is(err, want) || !errors.As(err, &e) || e.Op != "new" || e.Hint == "" ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%v, %v", rt, err)
		}
	}
	// C code has brought the one, and New is told to take the other.
	if noLoad == 0 {
		t.Skip(runtime.GOOS + " does not tell of libraries that are loaded by another path")
	}
	if err := loadLibrary(second); !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "C code") {
		t.Error(err)
	}
}

// C++ code that is loaded after the core, and waits in its catch handlers: each fiber's exceptions
// are its own. csrc/testdata/exceptions_test.cc has more of the kind.
const handlers = `#include <cfiber.h>
#include <exception>

extern "C" intptr_t handlers(void *p) {
  intptr_t id = reinterpret_cast<intptr_t>(p), wrong = 0;
  for (int i = 0; i < 100; i++) {
    try {
      try {
        throw id * 1000 + i;
      } catch (intptr_t) {
        cfiber_yield();
        throw;
      }
    } catch (intptr_t value) {
      for (int k = 0; k < id; k++)
        cfiber_yield();
      wrong += value != id * 1000 + i;
    }
    wrong += static_cast<bool>(std::current_exception());
  }
  return wrong;
}
`

func TestLibraryExceptions(t *testing.T) {
	if noLoad == 0 {
		t.Skip("on " + runtime.GOOS + " the core leaves C++ exceptions alone")
	}
	cxx := cmp.Or(os.Getenv("CXX"), "c++")
	if _, err := exec.LookPath(cxx); err != nil {
		t.Skip(err)
	}
	before := openTest(t, Options{}) // loads the core
	lib := filepath.Dir(library.path)
	path := compile(t, cxx, "handlers.cc", handlers, "-Icsrc/include", "-L"+lib, "-lcfiber", "-Wl,-rpath,"+lib)
	handle, err := purego.Dlopen(path, purego.RTLD_NOW)
	if err != nil {
		t.Fatal(err)
	}
	address, err := purego.Dlsym(handle, "handlers")
	if err != nil {
		t.Fatal(err)
	}
	rt := openTest(t, Options{Threads: 1})
	var fibers []*Fiber
	for i := range 5 {
		fibers = append(fibers, spawn(t, rt, unsafe.Pointer(pointerTo[byte](address)), number(i)))
	}
	for _, f := range fibers {
		if wrong, err := f.Wait(context.Background()); wrong != 0 || err != nil {
			t.Errorf("fiber %d: %d wrong, %v", f.ID(), wrong, err)
		}
	}
	before.Close()
}
