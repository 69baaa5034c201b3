// Command cfiber-header writes cfiber.h into a folder:
//
//	go run github.com/cfiber/cfiber/cmd/cfiber-header DIR
//
// It serves a Go module whose C code includes the header and that would rather
// keep a copy of it than pass an -I flag. The copy is of the version of the
// module that is built, so run it again (from go:generate, say) after an upgrade.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cfiber/cfiber/csrc/include"
)

func main() {
	if len(os.Args) != 2 || os.Args[1] == "" || os.Args[1][0] == '-' {
		fmt.Fprintln(os.Stderr, "usage: cfiber-header DIR\n\nWrites cfiber.h into DIR, which is made if it is missing.")
		os.Exit(2)
	}
	name, err := write(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "cfiber-header:", err)
		os.Exit(1)
	}
	fmt.Println(name)
}

// write puts the header into dir and returns its name there. A copy that is up
// to date is left alone, so that make does not rebuild what includes it.
func write(dir string) (string, error) {
	name := filepath.Join(dir, "cfiber.h")
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, include.Header) {
		return name, nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	return name, os.WriteFile(name, include.Header, 0o666)
}
