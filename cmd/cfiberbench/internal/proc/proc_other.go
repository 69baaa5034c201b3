//go:build !linux

// Package proc looks at other processes.
package proc

import (
	"errors"
	"time"
)

// ErrUnknown says that this system does not tell.
var ErrUnknown = errors.New("only Linux's /proc tells this")

// Memory is what a process has.
type Memory struct{ Resident, PageTables, Mappings int64 }

// ReadMemory fails.
func ReadMemory(int) (Memory, error) { return Memory{}, ErrUnknown }

// CPU fails.
func CPU(int) (time.Duration, error) { return 0, ErrUnknown }

// Wakeups fails.
func Wakeups(int) (int64, error) { return 0, ErrUnknown }
