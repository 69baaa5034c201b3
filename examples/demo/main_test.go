//go:build cgo

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The test program runs itself as the demo, which runs itself for its parts.
func TestMain(m *testing.M) {
	if os.Getenv("CFIBER_DEMO_TEST") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func demoCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), "CFIBER_DEMO_TEST=1")
	return cmd
}

func TestDemo(t *testing.T) {
	out, err := demoCommand(t, "-calls", "300", "-conns", "50", "-duration", "300ms").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "All results and replies were right.") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("\n%s", out)
}

func TestDemoFails(t *testing.T) {
	for _, args := range [][]string{
		{"-part", "nothing"},
		{"-part", "client", "-addr", "nowhere"},
		{"-part", "client", "-addr", "127.0.0.1:1"}, // nobody listens there
	} {
		if out, err := demoCommand(t, args...).CombinedOutput(); err == nil {
			t.Errorf("%q succeeds:\n%s", args, out)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567",
		-1: "-1", -123: "-123", -1234: "-1,234", -123456: "-123,456",
	} {
		if got := count(n); got != want {
			t.Errorf("count(%d) is %q, want %q", n, got, want)
		}
	}
}
