package child

import (
	"context"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/fake"
)

func TestMain(m *testing.M) {
	fake.Main()
	m.Run()
}

const long = time.Minute

func TestParse(t *testing.T) {
	metrics, err := Parse([]string{"time 9.4 ns/op", "", "  throughput 1e6   op/s ", "p99 -0 ns"})
	want := []bench.Metric{
		{Name: "time", Unit: "ns/op", Value: 9.4}, {Name: "throughput", Unit: "op/s", Value: 1e6},
		{Name: "p99", Unit: "ns", Value: 0},
	}
	if err != nil || !reflect.DeepEqual(metrics, want) {
		t.Errorf("got %v, %v", metrics, err)
	}
	for line, part := range map[string]string{
		"time 9.4":                   "not METRIC VALUE UNIT",
		"time 9.4 ns / op":           "not METRIC VALUE UNIT",
		"time fast ns/op":            "not a number",
		"time NaN ns/op":             "not a number",
		"time +Inf ns/op":            "not a number",
		"time 1 ns/op\ntime 2 ns/op": "twice",
		"LISTENING 80":               "not METRIC VALUE UNIT",
		"warning: strange things":    "not a number",
	} {
		if _, err := Parse(strings.Split(line, "\n")); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("Parse(%q): error %v, want one with %q", line, err, part)
		}
	}
}

func TestRun(t *testing.T) {
	argv := fake.Command(t.Setenv)
	metrics, err := Run(context.Background(), append(argv, "good"), long)
	if err != nil || len(metrics) != 2 || metrics[0].Value != 12.5 || metrics[1].Unit != "B/unit" {
		t.Errorf("good: %v, %v", metrics, err)
	}
	for _, test := range []struct {
		workload, part string
		unsupported    bool
	}{
		{"unsupported", "there is no such thing here", true},
		{"unknown", "unknown argument: threads=2", true},
		{"fails", "exit status 1: it broke", false},
		{"silent", "it printed nothing", false},
		{"garbage", "hello, world", false},
		{"long line", "it printed nothing", false},
	} {
		_, err := Run(context.Background(), append(argv, test.workload), long)
		if err == nil || !strings.Contains(err.Error(), test.part) {
			t.Errorf("%s: error %v, want one with %q", test.workload, err, test.part)
		}
		if unsupported := new(UnsupportedError); errors.As(err, &unsupported) != test.unsupported {
			t.Errorf("%s: %T", test.workload, err)
		}
	}
	if _, err := Run(context.Background(), []string{"/no/such/program"}, long); err == nil {
		t.Error("a program that is not there has run")
	}
}

// One that does not end is killed, and so is what it has started.
func TestLimit(t *testing.T) {
	argv := fake.Command(t.Setenv)
	c, err := Start(context.Background(), append(argv, "hangs with a child"), 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.Expect("CHILD")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Finish()
	if err == nil || !strings.Contains(err.Error(), "no end within 300ms") {
		t.Errorf("error %v", err)
	}
	pid, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	waitGone(t, pid)
}

func waitGone(t *testing.T, pid int) {
	for deadline := time.Now().Add(long); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		// A zombie that nobody has waited for yet is as good as gone.
		if err := syscall.Kill(pid, 0); err != nil || isZombie(pid) {
			return
		}
	}
	t.Errorf("process %d is still there", pid)
}

func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c, err := Start(ctx, append(fake.Command(t.Setenv), "parks"), long)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Expect("PARKED"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := c.Finish(); err == nil {
		t.Error("no error of a child that was interrupted")
	}
}

// Finish closes stdin, which is what those that park and serve wait for.
func TestFinish(t *testing.T) {
	c, err := Start(context.Background(), append(fake.Command(t.Setenv), "serves"), long)
	if err != nil {
		t.Fatal(err)
	}
	if port, err := c.Expect("LISTENING"); port != "4242" || err != nil {
		t.Errorf("port %q, %v", port, err)
	}
	if lines, err := c.Finish(); err != nil || !reflect.DeepEqual(lines, []string{"cpu 0.5 s"}) {
		t.Errorf("%q, %v", lines, err)
	}
}

func TestExpect(t *testing.T) {
	for workload, part := range map[string]string{
		"good": "not LISTENING", "silent": "ended without the line LISTENING", "fails": "not LISTENING",
	} {
		c, err := Start(context.Background(), append(fake.Command(t.Setenv), workload), long)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Expect("LISTENING"); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: error %v, want one with %q", workload, err, part)
		}
		c.Kill()
	}
}
