package procself

import (
	"os"
	"runtime"
	"testing"
)

func TestStatus(t *testing.T) {
	if n := Status("NoSuchName"); n != 0 {
		t.Errorf("of a name that is not there: %d", n)
	}
	if runtime.GOOS != "linux" {
		return
	}
	if pid := Status("Pid"); pid != int64(os.Getpid()) {
		t.Errorf("Pid %d, and it is %d", pid, os.Getpid())
	}
	if kib := Status("VmRSS"); kib < 100 || kib > 1<<30 {
		t.Errorf("VmRSS %d", kib)
	}
}
