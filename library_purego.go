//go:build !cgo && ((darwin && !ios && (amd64 || arm64)) || (freebsd && (amd64 || arm64)) || (netbsd && (amd64 || arm64)) || (linux && !android && (amd64 || arm64 || loong64 || ppc64le || riscv64)))

package cfiber

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Finding, loading and checking libcfiber, for a program without cgo. The library is loaded once
// and stays: it has memory, threads and a signal handler that outlive every runtime.

const libraryVariable = "CFIBER_LIBRARY"

const libraryHint = "build it with ./build.sh lib of this version, and name the file by Options.Library or " +
	libraryVariable

// noLoad asks the loader only for what is loaded already. 0: on this system it goes by paths, which
// tells nothing.
var noLoad = map[string]int{"linux": 0x4, "freebsd": 0x2000, "netbsd": 0x2000}[runtime.GOOS]

var library struct {
	mu     sync.Mutex
	handle uintptr // 0: none as yet
	path   string
	layout map[string]fieldLayout

	exceptions bool // the core has been told of the C++ runtime
}

// bridgeLoad loads the library, if none has been, and returns its table, which it has compared
// with Go's. A failure is not remembered: the next call may name another file.
func bridgeLoad(op, path string) (map[string]fieldLayout, error) {
	l := &library
	l.mu.Lock()
	defer l.mu.Unlock()
	// The loader keeps its message for the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var err error
	if l.handle == 0 {
		err = loadLibrary(path)
	} else if path != "" && path != l.path {
		err = sameLibrary(path)
	}
	if err != nil {
		return nil, &Error{Op: op, Err: err, Hint: libraryHint}
	}
	findExceptions()
	return l.layout, nil
}

// loadLibrary loads the library from the path, or where it is usually found.
func loadLibrary(path string) error {
	candidates := []string{path}
	if path == "" {
		candidates[0] = os.Getenv(libraryVariable)
	}
	if candidates[0] == "" {
		candidates = usualLibraries()
	}
	var tried []string
	for _, name := range candidates {
		handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err != nil {
			tried = append(tried, failureText(name, err))
			continue
		}
		// What bears the name and does not fit is an error: the next one would be a surprise.
		if err := useLibrary(handle, name); err != nil {
			purego.Dlclose(handle)
			return err
		}
		return nil
	}
	return both{ErrNoLibrary, errors.New("tried " + strings.Join(tried, ", "))}
}

// failureText is the loader's message, which most often begins with the name itself.
func failureText(name string, err error) string {
	text := err.Error()
	if strings.Contains(text, name) {
		return text
	}
	return name + ": " + text
}

// usualLibraries are the names to try, in order.
func usualLibraries() []string {
	if runtime.GOOS != "darwin" {
		return []string{fmt.Sprintf("libcfiber.so.%d", versionMajor), "libcfiber.so"}
	}
	var names []string
	for _, dir := range []string{"", "/usr/local/lib/", "/opt/homebrew/lib/"} {
		names = append(names, fmt.Sprintf("%slibcfiber.%d.dylib", dir, versionMajor), dir+"libcfiber.dylib")
	}
	return names
}

// useLibrary checks all there is to check of a library and then makes it the program's.
func useLibrary(handle uintptr, name string) error {
	var f coreFuncs
	for i, s := range f.symbols() {
		a, err := purego.Dlsym(handle, s.name)
		if err != nil {
			return both{ErrMismatch, fmt.Errorf("%s lacks %s", name, s.name)}
		}
		*s.address = a
		if i > 0 {
			continue
		}
		name = fileOf(a, name)
		if v, _, _ := purego.SyscallN(a); uint32(v) != coreVersion {
			return both{ErrMismatch, fmt.Errorf("%s has version %s, the package has %s",
				name, versionText(uint32(v)), versionText(coreVersion))}
		}
	}
	layout := f.layoutTable()
	if err := matchLayout(layout); err != nil {
		return both{ErrMismatch, fmt.Errorf("%s: %w", name, err)}
	}
	if err := onlyLibrary(handle, name); err != nil {
		return err
	}
	core = f
	library.handle, library.path, library.layout = handle, name, layout
	return nil
}

// cxxRuntimes are the libraries that have __cxa_get_globals.
var cxxRuntimes = []string{"libstdc++.so.6", "libc++abi.so.1", "libcxxrt.so.1", "libstdc++.so.9"}

// findExceptions gives the core what it finds by itself in a program with cgo: the list of C++
// exceptions, if there is a C++ runtime by now.
func findExceptions() {
	if noLoad == 0 || library.exceptions {
		return
	}
	for _, name := range cxxRuntimes {
		handle, err := purego.Dlopen(name, purego.RTLD_NOW|noLoad)
		if err != nil {
			continue
		}
		// Not closed again: it must stay for as long as there are threads.
		if globals, err := purego.Dlsym(handle, "__cxa_get_globals"); err == nil {
			purego.SyscallN(core.exceptions, globals)
			library.exceptions = true
			return
		}
	}
}

func versionText(v uint32) string { return fmt.Sprintf("%d.%d.%d", v>>16, v>>8&0xff, v&0xff) }

// onlyLibrary reports whether the C code that is loaded already has another copy: what it calls
// would know nothing of our fibers, and block their threads.
func onlyLibrary(handle uintptr, name string) error {
	if noLoad == 0 {
		return nil
	}
	other, err := purego.Dlopen(usualLibraries()[0], purego.RTLD_NOW|noLoad)
	if err != nil {
		return nil // ours goes by another name
	}
	purego.Dlclose(other)
	if other == handle {
		return nil
	}
	version, _ := purego.Dlsym(other, "cfiber_version")
	return both{ErrMismatch, fmt.Errorf("%s, when C code of the program has loaded %s", name, fileOf(version, "another"))}
}

// sameLibrary reports whether the path is the library that has been loaded.
func sameLibrary(path string) error {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW)
	if err != nil {
		return both{ErrNoLibrary, errors.New("tried " + failureText(path, err))}
	}
	purego.Dlclose(handle)
	if handle != library.handle {
		return both{ErrMismatch, fmt.Errorf("%s, when the program has loaded %s", path, library.path)}
	}
	return nil
}

// fileOf is the file that an address belongs to, or the name if the system does not tell.
func fileOf(address uintptr, name string) string {
	var info struct { // Dl_info
		file          *byte
		base          uintptr
		symbol        *byte
		symbolAddress uintptr
	}
	dladdr, err := purego.Dlsym(purego.RTLD_DEFAULT, "dladdr")
	if err != nil {
		return name
	}
	found, _, _ := purego.SyscallN(dladdr, address, uintptr(unsafe.Pointer(&info)))
	if int32(found) == 0 || info.file == nil {
		return name
	}
	return stringAt(info.file)
}
