package generate

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/child"
)

// server answers each connection with what handle does, and returns its port.
func server(t *testing.T, handle func(net.Conn)) int {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				handle(conn)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

func TestEcho(t *testing.T) {
	port := server(t, func(c net.Conn) { io.Copy(c, c) })
	var out bytes.Buffer
	if err := Echo(bench.P("port", port, "conns", 20, "seconds", 0.2, "crunch", 1), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) < 3 || lines[0] != "BEGIN" || lines[1] != "END" {
		t.Fatalf("it printed\n%s", out.String())
	}
	metrics, err := child.Parse(lines[2:])
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, m := range metrics {
		values[m.Name] = m.Value
	}
	if values["requests"] < 20 || values["throughput"] != values["requests"]/0.2 ||
		values["p50"] <= 0 || values["p50"] > values["p99"] || values["p99"] > values["p99.9"] {
		t.Errorf("%v", values)
	}
}

func TestWrongAnswers(t *testing.T) {
	for name, handle := range map[string]func(net.Conn){
		"closes": func(c net.Conn) { io.ReadFull(c, make([]byte, Size)) },
		"changes": func(c net.Conn) {
			b := make([]byte, Size)
			io.ReadFull(c, b)
			b[63]++
			c.Write(b)
			io.Copy(io.Discard, c)
		},
	} {
		if err := Echo(bench.P("port", server(t, handle), "conns", 2, "seconds", 0.2), io.Discard); err == nil {
			t.Errorf("a server that %s is taken for a good one", name)
		}
	}
	for _, bad := range []bench.Params{bench.P("conns", 1), bench.P("port", 1, "conns", 0), bench.P("port", "x"), bench.P("port", 80, "seconds", -1)} {
		if err := Echo(bad, io.Discard); err == nil {
			t.Errorf("no error of %v", bad)
		}
	}
}
