package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cfiber/cfiber/csrc/include"
)

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "third", "party")
	name, err := write(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, include.Header) || !bytes.Contains(got, []byte("#ifndef CFIBER_H")) {
		t.Errorf("%s is not the header", name)
	}

	// A second run leaves an equal file alone, to its time stamp.
	past := time.Unix(1e9, 0)
	if err := os.Chtimes(name, past, past); err != nil {
		t.Fatal(err)
	}
	if _, err := write(dir); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil {
		t.Fatal(err)
	} else if !info.ModTime().Equal(past) {
		t.Errorf("an up-to-date copy was written again at %v", info.ModTime())
	}

	// One that differs is replaced.
	if err := os.WriteFile(name, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := write(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, include.Header) {
		t.Errorf("an old copy was not replaced: %v", err)
	}
}

func TestWriteFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if name, err := write(file); err == nil {
		t.Errorf("wrote %s below a file", name)
	}
}
