// Package proc looks at other processes.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ErrUnknown is nil here: see proc_other.go.
var ErrUnknown error

// Memory is what a process has.
type Memory struct {
	Resident   int64 // bytes, page tables not included
	PageTables int64 // bytes
	Mappings   int64
}

// ReadMemory looks at a process.
func ReadMemory(pid int) (Memory, error) {
	var m Memory
	status, err := fields(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return m, err
	}
	m.Resident, m.PageTables = kib(status, "VmRSS"), kib(status, "VmPTE")
	// What status says is a sum of counters that each CPU keeps for itself; this is exact.
	if rollup, err := fields(fmt.Sprintf("/proc/%d/smaps_rollup", pid)); err == nil {
		m.Resident = kib(rollup, "Rss")
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	m.Mappings = int64(bytes.Count(maps, []byte("\n")))
	return m, err
}

// fields are the lines "name: value" of a file.
func fields(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	m := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			m[name] = strings.TrimSpace(value)
		}
	}
	return m, nil
}

func kib(m map[string]string, name string) int64 { return number(m, name) * 1024 }

func number(m map[string]string, name string) int64 {
	first, _, _ := strings.Cut(m[name], " ")
	n, _ := strconv.ParseInt(first, 10, 64)
	return n
}

// ticksPerSecond is USER_HZ, which is 100 on all architectures that Go knows.
const ticksPerSecond = 100

// CPU is what a process has used so far, to 10 ms.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may have blanks.
	words := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(words) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat is %q", pid, text)
	}
	const user, system = 11, 12 // counted from the state, which follows the name
	var ticks int64
	for _, i := range []int{user, system} {
		n, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// Wakeups is how often the threads of a process have gone to sleep so far, and so been woken.
func Wakeups(pid int) (int64, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return 0, err
	}
	var total int64
	for _, task := range tasks {
		if status, err := fields(task); err == nil { // a thread may be gone by now
			total += number(status, "voluntary_ctxt_switches")
		}
	}
	return total, nil
}
