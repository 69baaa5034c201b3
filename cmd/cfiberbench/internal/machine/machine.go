// Package machine describes the machine that something was measured on.
package machine

import (
	"bufio"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
)

// Describe looks at the machine it runs on. What it cannot find out is "unknown".
func Describe() bench.Machine {
	m := bench.Machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version(),
		CPU: unknown(cpu()), Kernel: unknown(kernel()), MemoryBytes: memory(),
		CC:          unknown(version(cmp.Or(os.Getenv("CC"), "cc"))),
		CXX:         unknown(version(cmp.Or(os.Getenv("CXX"), "c++"))),
		CFiber:      unknown(revision()),
		Mitigations: mitigations("/sys/devices/system/cpu/vulnerabilities"),
	}
	return m
}

func unknown(s string) string { return cmp.Or(s, "unknown") }

// version is the first line that a compiler says of itself.
func version(compiler string) string {
	words := strings.Fields(compiler)
	if len(words) == 0 {
		return ""
	}
	out, err := exec.Command(words[0], "--version").Output()
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return first
}

func kernel() string {
	out, err := exec.Command("uname", "-sr").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func cpu() string {
	if name := field("/proc/cpuinfo", "model name"); name != "" {
		return name
	}
	out, err := exec.Command("sysctl", "-n", "machdep.cpu.brand_string").Output()
	if err == nil {
		return strings.TrimSpace(string(out))
	}
	out, err = exec.Command("sysctl", "-n", "hw.model").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func memory() int64 {
	kib, _ := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64)
	return kib * 1024
}

// field is the value of the first line "name : value" of a file.
func field(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// commit is set by build.sh.
var commit string

// revision is the commit that cfiberbench was built from.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if commit != "" || !ok {
		return commit
	}
	revision, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "-dirty"
		}
	}
	return revision + changed
}

// mitigations are the kernel's words on each weakness of the processor that it acts upon.
func mitigations(dir string) []string {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var all []string
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		line := strings.TrimSpace(string(text))
		if err == nil && line != "Not affected" {
			all = append(all, f.Name()+": "+line)
		}
	}
	return all
}
