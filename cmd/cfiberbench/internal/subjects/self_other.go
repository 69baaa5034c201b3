//go:build !linux

package subjects

// ResidentBytes is 0 where nobody tells.
func ResidentBytes() int64 { return 0 }

// Threads is 0 where nobody tells.
func Threads() int { return 0 }
