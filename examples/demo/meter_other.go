//go:build cgo && !linux

package main

import (
	"runtime"
	"runtime/pprof"
	"syscall"
)

// residentBytes is the peak so far, which is what there is everywhere.
func residentBytes() int64 { return peakBytes() }

func peakBytes() int64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return int64(usage.Maxrss)
	}
	return int64(usage.Maxrss) * 1024
}

// threadCount is the number of threads that Go has started; it starts all.
func threadCount() int { return pprof.Lookup("threadcreate").Count() }
