// Package fake lets a test's own executable be the subject that the test needs.
package fake

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

const variable = "CFIBERBENCH_FAKE"

// Main runs in place of the tests where the process has been started by Command. The first
// argument is the workload; it says how to behave.
func Main() {
	if os.Getenv(variable) == "" {
		return
	}
	behave(os.Args[1], os.Args[2:])
	os.Exit(0)
}

// Command is what starts a fake subject. It sets the environment by setenv, of a test.
func Command(setenv func(key, value string)) []string {
	setenv(variable, "1")
	return []string{os.Args[0]}
}

func behave(workload string, args []string) {
	switch workload {
	case "good":
		fmt.Println("time 12.5 ns/op\nrss 4315 B/unit")
	case "args":
		fmt.Fprintln(os.Stderr, strings.Join(args, " "))
		os.Exit(1)
	case "slow": // 1 µs an operation
		fmt.Println("time 1000 ns/op")
	case "unsupported":
		fmt.Fprintln(os.Stderr, "some chatter\nthere is no such thing here")
		os.Exit(3)
	case "unknown":
		fmt.Fprintln(os.Stderr, "unknown argument: threads=2")
		os.Exit(2)
	case "fails":
		fmt.Println("time 1 ns/op")
		fmt.Fprintln(os.Stderr, "it broke")
		os.Exit(1)
	case "silent":
	case "garbage":
		fmt.Println("hello, world")
	case "hangs":
		fmt.Fprintln(os.Stderr, "about to hang")
		hang()
	case "hangs with a child": // which holds the pipes too
		child := exec.Command(os.Args[0], "hangs")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			panic(err)
		}
		fmt.Println("CHILD", child.Process.Pid)
		hang()
	case "long line":
		fmt.Println(strings.Repeat("x", 1<<20))
	case "parks":
		fmt.Println("PARKED")
		io.Copy(io.Discard, os.Stdin)
	case "serves":
		fmt.Println("LISTENING 4242")
		io.Copy(io.Discard, os.Stdin)
		fmt.Println("cpu 0.5 s")
	default:
		panic("the fake subject does not know " + workload)
	}
}

func hang() {
	for {
		time.Sleep(time.Hour)
	}
}
