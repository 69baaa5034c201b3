package cfiber

import (
	"bytes"
	"os"
	"strconv"
)

// isRunnable reports whether the kernel would run the thread if it had a free
// core: then it does not block, however little it has run.
func isRunnable(osThread uint32) bool {
	stat, err := os.ReadFile("/proc/self/task/" + strconv.Itoa(int(osThread)) + "/stat")
	if err != nil {
		return false
	}
	// "tid (name) state ...", and the name may contain anything.
	i := bytes.LastIndexByte(stat, ')')
	return i >= 0 && i+2 < len(stat) && stat[i+2] == 'R'
}
