package child

import (
	"fmt"
	"os"
	"strings"
)

// isZombie reports whether a process has ended and nobody has waited for it. Only Linux tells.
func isZombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(after, "Z")
}
