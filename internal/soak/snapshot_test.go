//go:build cgo

package main

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestGrowth(t *testing.T) {
	before := snapshot{Goroutines: 5, Threads: 10, Resident: 50_000, FDs: []string{"0 /dev/null"}, Maps: []string{"1000 r-xp"}}
	for name, c := range map[string]struct {
		change func(*snapshot)
		want   []string // in what is said; none: all is well
	}{
		"nothing":      {func(*snapshot) {}, nil},
		"a fiber":      {func(s *snapshot) { s.Live = 1 }, []string{"fibers: 1"}},
		"a goroutine":  {func(s *snapshot) { s.Goroutines++ }, []string{"goroutines: 6, 5 before"}},
		"a worker's":   {func(s *snapshot) { s.Workers++; s.Goroutines++; s.FDs = []string{"0", "1", "2"} }, nil},
		"some threads": {func(s *snapshot) { s.Threads += threadsMore }, nil},
		"more threads": {func(s *snapshot) { s.Threads += threadsMore + 1 }, []string{"threads: 19, 10 before"}},
		"some memory":  {func(s *snapshot) { s.Resident += residentMore }, nil},
		"more memory":  {func(s *snapshot) { s.Resident += residentMore + 1 }, []string{"KiB resident"}},
		"less":         {func(s *snapshot) { *s = snapshot{} }, nil},
		"a descriptor": {func(s *snapshot) { s.FDs = []string{"0 /dev/null", "7 socket:[1]"} },
			[]string{"descriptors: 2, 1 before", "new: 7 socket:[1]"}},
		"mappings": {func(s *snapshot) { s.Maps = append(slices.Repeat([]string{"2000 rw-p"}, 40), s.Maps...) },
			[]string{"mappings: 41, 1 before", "new: 2000 rw-p", "..."}},
	} {
		after := before
		c.change(&after)
		got := before.growth(after)
		if len(got) > 1 || len(got) == 0 != (len(c.want) == 0) {
			t.Errorf("%s: %q", name, got)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(got[0], want) {
				t.Errorf("%s: %q lacks %q", name, got[0], want)
			}
		}
	}
}

func TestSnapshotSeesADescriptor(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no list with names of descriptors")
	}
	before := takeSnapshot()
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fresh := added(before.FDs, takeSnapshot().FDs)
	if !slices.ContainsFunc(fresh, func(s string) bool { return strings.HasSuffix(s, " /dev/null") }) {
		t.Errorf("%q", fresh)
	}
}
