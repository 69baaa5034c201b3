//go:build cgo

package main

import "github.com/cfiber/cfiber/internal/procself"

func residentBytes() int64 { return procself.Status("VmRSS") * 1024 }
func peakBytes() int64     { return procself.Status("VmHWM") * 1024 }
func threadCount() int     { return int(procself.Status("Threads")) }
