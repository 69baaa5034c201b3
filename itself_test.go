package cfiber

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// emulator is the command that runs this test binary, where another processor than its own
// does; CFIBER_EMULATED holds it.
func emulator() []string { return strings.Fields(os.Getenv("CFIBER_EMULATED")) }

// itself is a command that runs the test named, alone, in a process of its own, with name=value
// in its environment: for what ends the process.
func itself(t *testing.T, name, value string) *exec.Cmd {
	args := append(emulator(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), name+"="+value)
	return cmd
}
