//go:build unix

package subjects

import (
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime is what the process has used, in user and system mode.
func CPUTime() time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
