//go:build cgo

package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/cfiber/cfiber/internal/procself"
)

// A snapshot is what the process has while it rests. Numbers that the system does not tell are 0.
type snapshot struct {
	Live       uint64 // fibers
	Workers    int    // threads of the runtime
	Goroutines int
	Threads    int64
	Resident   int64 // KiB
	Maps       []string
	FDs        []string
}

// What may be more at the end. All else is equal, or has leaked: the loads are as many at once
// before the warm-up's end as after it.
const (
	// Go never ends the threads that calls of C have made it start, and how many of these meet
	// is chance. What leaked one for each runtime would have leaked hundreds.
	threadsMore = 8
	// A new thread has a stack, its guard and an arena of malloc's. And a slab of stacks, or one
	// of records, is made when more fibers meet than ever before.
	mapsMore = 32
	// Such slabs again; the pages of warm stacks (64 of each thread, up to 16 KiB used in each, and
	// none is looked at for every one); what malloc and Go's heap keep in pieces. A stack
	// leaked per operation would be a hundred times that in a minute.
	residentMore = 24 << 10
)

// What a thread of the runtime has: a goroutine, and a poller with what wakes it. Such threads are never
// fewer, and the watchdog starts one more when others block.
const workerGoroutines = 1

func workerDescriptors() int64 {
	if runtime.GOOS == "linux" {
		return 2 // epoll and an eventfd
	}
	return 3 // at most: kqueue and a pipe
}

func takeSnapshot() snapshot {
	return snapshot{
		Goroutines: runtime.NumGoroutine(),
		Threads:    procself.Status("Threads"),
		Resident:   procself.Status("VmRSS"),
		Maps:       mappings(),
		FDs:        descriptors(),
	}
}

func (s snapshot) String() string {
	return fmt.Sprintf("%d fibers, %d threads for them, %d goroutines, %d threads in all, %d descriptors, %d mappings, %d KiB",
		s.Live, s.Workers, s.Goroutines, s.Threads, len(s.FDs), len(s.Maps), s.Resident)
}

// sameAs reports whether nothing has been given back since last.
func (s snapshot) sameAs(last snapshot) bool {
	return s.Live == last.Live && s.Goroutines == last.Goroutines && s.Threads == last.Threads &&
		len(s.FDs) == len(last.FDs) && len(s.Maps) == len(last.Maps) && s.Resident >= last.Resident-64
}

// growth says what after has more than s, beyond what it may.
func (s snapshot) growth(after snapshot) []string {
	var list []string
	grew := func(what string, before, after, more int64, fresh []string) {
		if after <= before+more {
			return
		}
		text := fmt.Sprintf("%s: %d, %d before, at most %d more are all right", what, after, before, more)
		for _, f := range fresh {
			text += "\n     new: " + f
		}
		list = append(list, text)
	}
	workers := int64(max(after.Workers-s.Workers, 0))
	grew("fibers", 0, int64(after.Live), 0, nil)
	grew("goroutines", int64(s.Goroutines), int64(after.Goroutines), workers*workerGoroutines, nil)
	grew("threads", s.Threads, after.Threads, threadsMore, nil)
	grew("descriptors", int64(len(s.FDs)), int64(len(after.FDs)), workers*workerDescriptors(), added(s.FDs, after.FDs))
	grew("mappings", int64(len(s.Maps)), int64(len(after.Maps)), mapsMore, added(s.Maps, after.Maps))
	grew("KiB resident", s.Resident, after.Resident, residentMore, nil)
	return list
}

// added is what after has and before has not, at most some of it.
func added(before, after []string) []string {
	const most = 20
	var list []string
	for _, a := range after {
		if slices.Contains(before, a) {
			continue
		}
		if len(list) == most {
			return append(list, "...")
		}
		list = append(list, a)
	}
	return list
}

// descriptors are the open ones, and what each is.
func descriptors() []string {
	dir := "/dev/fd"
	if runtime.GOOS == "linux" {
		dir = "/proc/self/fd"
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	var list []string
	for _, name := range names {
		to, _ := os.Readlink(dir + "/" + name)
		if name == fmt.Sprint(f.Fd()) {
			continue
		}
		list = append(list, name+" "+to)
	}
	return list
}

// mappings are the address, the rights and the file of each. Where one that grows ends does not
// count.
func mappings() []string {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil
	}
	var list []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		begin, _, _ := strings.Cut(fields[0], "-")
		list = append(list, strings.Join(append([]string{begin, fields[1]}, fields[5:]...), " "))
	}
	return list
}
