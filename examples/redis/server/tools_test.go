//go:build cgo

package server

import (
	"bytes"
	"context"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// runTool runs a program of Redis's against s and returns what it prints.
func runTool(t *testing.T, s *Server, stdin string, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip(err)
	}
	host, port, err := net.SplitHostPort(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, append([]string{"-h", host, "-p", port}, args...)...)
	cmd.WaitDelay = time.Second
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v: %v\n%s%s", cmd, err, stdout, &stderr)
	}
	return string(stdout)
}

func TestRedisBenchmark(t *testing.T) {
	s := start(t, Options{})
	n := strconv.Itoa(scaled(50_000))
	for _, args := range [][]string{
		{"-n", n},
		{"-n", n, "-P", "16"},
		{"-n", n, "-P", "100", "-c", "200", "-d", "1000", "-r", "1000"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			out := runTool(t, s, "", "redis-benchmark", append([]string{"-t", "ping,set,get,incr", "-q"}, args...)...)
			if regexp.MustCompile(`(?i)error|warning|fail|\berr\b`).MatchString(out) {
				t.Errorf("it complains:\n%s", out)
			}
			for _, name := range []string{"PING_INLINE", "PING_MBULK", "SET", "GET", "INCR"} {
				result := regexp.MustCompile(name + `: [0-9.]+ requests per second.*`).FindString(out)
				if result == "" {
					t.Errorf("no result for %s:\n%s", name, out)
				}
				t.Log(result)
			}
			waitIdle(t, s)
		})
	}
}

func TestRedisCLI(t *testing.T) {
	s := start(t, Options{})
	for _, test := range []struct {
		stdin string
		args  []string
		want  string
	}{
		{"", []string{"ping"}, "PONG\n"},
		{"", []string{"echo", "a b\nc"}, "a b\nc\n"},
		{"", []string{"set", "k", "\x01\xff\r\n"}, "OK\n"},
		{"", []string{"get", "k"}, "\x01\xff\r\n\n"},
		{"binary", []string{"-x", "set", "k"}, "OK\n"},
		{"", []string{"get", "k"}, "binary\n"},
		{"", []string{"-r", "3", "incr", "n"}, "1\n2\n3\n"},
		{"", []string{"del", "n", "k"}, "2\n"},
		{"", []string{"--no-raw", "get", "n"}, "(nil)\n"},
		{"set k 1\nincr k\nget k\n", nil, "OK\n2\n2\n"},
		{"", []string{"nope", "x"}, "ERR unknown command 'nope', with args beginning with: 'x' \n\n"},
		{"", []string{"--no-raw", "command", "docs"}, "(empty array)\n"},
		{"", []string{"config", "get", "save"}, "save\n\n"},
	} {
		if got := runTool(t, s, test.stdin, "redis-cli", test.args...); got != test.want {
			t.Errorf("%q with input %q: got %q, want %q", test.args, test.stdin, got, test.want)
		}
	}

	// Mass insertion, which ends with an ECHO of random bytes.
	out := runTool(t, s, strings.Repeat(request("INCR", "mass"), 10_000), "redis-cli", "--pipe")
	if !strings.Contains(out, "errors: 0, replies: 10000") {
		t.Errorf("--pipe: %s", out)
	}
	waitIdle(t, s)
}

// What the other tests expect is what a real server says.
func TestSameAsRedis(t *testing.T) {
	redis := startRedis(t)
	ask := func(t *testing.T, in, want string) {
		conn, err := net.Dial("unix", redis)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		go io.WriteString(conn, in)
		got := make([]byte, len(want))
		n, err := io.ReadFull(conn, got)
		if string(got[:n]) != want {
			t.Errorf("Redis says %s and %v, we say %s", short(string(got[:n])), err, short(want))
		}
	}
	for _, test := range commandTests {
		if !strings.HasPrefix(test.name, "our ") {
			t.Run(test.name, func(t *testing.T) { ask(t, test.in, test.out) })
		}
	}
	for _, test := range protocolErrors {
		if !strings.HasPrefix(test.name, "our ") {
			t.Run(test.name, func(t *testing.T) { ask(t, test.in, "-ERR Protocol error: "+test.message+"\r\n") })
		}
	}
}

// startRedis starts a real server and returns the path of its socket.
func startRedis(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	waitFor(t, "the real server to start", func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return socket
}
