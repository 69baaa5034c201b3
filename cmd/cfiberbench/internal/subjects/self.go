package subjects

import "github.com/cfiber/cfiber/internal/procself"

// ResidentBytes is what the process has in memory, page tables included; 0 where nobody tells.
func ResidentBytes() int64 { return (procself.Status("VmRSS") + procself.Status("VmPTE")) * 1024 }

// Threads is how many the process has; 0 where nobody tells.
func Threads() int { return int(procself.Status("Threads")) }
