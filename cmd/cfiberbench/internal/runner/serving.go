package runner

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/child"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/proc"
)

// A serving subject.
type serving struct {
	*child.Child
	port, pid int
}

// serve starts a subject that serves. It says LISTENING PORT, or LISTENING PORT PID if another
// process than its own does the work.
func (r *Runner) serve(ctx context.Context, argv []string) (*serving, error) {
	c, err := child.Start(ctx, argv, r.Limit)
	if err != nil {
		return nil, err
	}
	line, err := c.Expect("LISTENING")
	if err != nil {
		c.Kill()
		return nil, err
	}
	s := &serving{Child: c, pid: c.PID()}
	if n, _ := fmt.Sscan(line, &s.port, &s.pid); n < 1 {
		c.Kill()
		return nil, fmt.Errorf("it printed LISTENING %s, and no port", line)
	}
	return s, nil
}

// usage is CPU time of a process, while somebody else measures. Where the system does not tell,
// it is 0.
func (s *serving) usage() time.Duration {
	d, err := proc.CPU(s.pid)
	if err != nil {
		return 0
	}
	return d
}

func (r *Runner) echo(ctx context.Context, c bench.Case, e *entrant) ([]bench.Metric, error) {
	// The server is told what it can do something about, the generator the rest.
	server := *e
	server.params = bench.P("port", 0, "threads", orOne(e.params.Get("threads")))
	for _, key := range []string{"busy", "crunch"} {
		if v := e.params.Get(key); v != "" {
			server.params = server.params.With(bench.P(key, v))
		}
	}
	s, err := r.serve(ctx, r.command(c, &server))
	if err != nil {
		return nil, err
	}
	defer s.Kill()
	args := []string{r.Self, "generate", "echo", "port=" + strconv.Itoa(s.port)}
	for _, key := range []string{"conns", "seconds", "crunch"} {
		if v := e.params.Get(key); v != "" {
			args = append(args, key+"="+v)
		}
	}
	metrics, err := r.generate(ctx, args, s)
	if err != nil {
		return nil, err
	}
	_, err = s.Finish()
	return metrics, err
}

func orOne(s string) string {
	if s == "" {
		return "1"
	}
	return s
}

// generate puts load on s, and looks at the CPU time that it uses meanwhile.
func (r *Runner) generate(ctx context.Context, args []string, s *serving) ([]bench.Metric, error) {
	g, err := child.Start(ctx, args, r.Limit)
	if err != nil {
		return nil, err
	}
	defer g.Kill()
	fail := func(err error) ([]bench.Metric, error) { return nil, fmt.Errorf("the generator: %w", err) }
	if _, err := g.Expect("BEGIN"); err != nil {
		return fail(err)
	}
	before := s.usage()
	if _, err := g.Expect("END"); err != nil {
		return fail(err)
	}
	used := s.usage() - before
	memory, memoryErr := proc.ReadMemory(s.pid)
	lines, err := g.Finish()
	if err != nil {
		return fail(err)
	}
	metrics, err := child.Parse(lines)
	if err != nil {
		return fail(err)
	}
	requests := 0.0
	for i, m := range metrics {
		if m.Name == "requests" {
			requests = m.Value
			metrics = append(metrics[:i], metrics[i+1:]...)
			break
		}
	}
	if requests == 0 {
		return fail(errors.New("no request was answered while it was measured"))
	}
	if used > 0 {
		each := bench.Metric{Name: "per_cpu", Value: requests / used.Seconds(), Unit: "op/cpu-s"}
		metrics = append([]bench.Metric{each}, metrics...)
	}
	if memoryErr == nil {
		metrics = append(metrics, bench.Metric{Name: "rss", Value: float64(memory.Resident), Unit: "B"})
	}
	return metrics, nil
}

// redis has redis-benchmark put load on a server.
func (r *Runner) redis(ctx context.Context, c bench.Case, e *entrant) ([]bench.Metric, error) {
	tool, err := exec.LookPath("redis-benchmark")
	if err != nil {
		return nil, &child.UnsupportedError{Reason: "there is no redis-benchmark: install redis-tools"}
	}
	server := *e
	server.params = bench.P("port", 0)
	s, err := r.serve(ctx, r.command(c, &server))
	if err != nil {
		return nil, err
	}
	defer s.Kill()
	var metrics []bench.Metric
	for _, test := range []string{"set", "get"} {
		some, err := r.redisBenchmark(ctx, tool, test, e.params, s)
		if err != nil {
			return nil, fmt.Errorf("redis-benchmark -t %s: %w", test, err)
		}
		metrics = append(metrics, some...)
	}
	_, err = s.Finish()
	return metrics, err
}

func (r *Runner) redisBenchmark(ctx context.Context, tool, test string, p bench.Params, s *serving) ([]bench.Metric, error) {
	requests, err := p.Int("requests", 1000)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, "-p", strconv.Itoa(s.port), "-t", test, "-c", p.Get("conns"),
		"-n", strconv.Itoa(requests), "--csv")
	before := s.usage()
	out, err := cmd.CombinedOutput()
	used := s.usage() - before
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	metrics, err := parseRedisBenchmark(test, string(out))
	if err == nil && used > 0 {
		each := bench.Metric{Name: test + "_per_cpu", Value: float64(requests) / used.Seconds(), Unit: "op/cpu-s"}
		metrics = append([]bench.Metric{each}, metrics...)
	}
	return metrics, err
}

// parseRedisBenchmark reads a table with a header, whose latencies are in ms.
func parseRedisBenchmark(test, out string) ([]bench.Metric, error) {
	var table []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, `"`) {
			table = append(table, line)
		}
	}
	records, err := csv.NewReader(strings.NewReader(strings.Join(table, ""))).ReadAll()
	if err != nil || len(records) != 2 {
		return nil, fmt.Errorf("it printed no table: %s", strings.TrimSpace(out))
	}
	var metrics []bench.Metric
	for _, column := range []struct {
		header, name, unit string
		factor             float64
	}{
		{"rps", "throughput", "op/s", 1},
		{"p50_latency_ms", "p50", "ns", 1e6},
		{"p99_latency_ms", "p99", "ns", 1e6},
	} {
		for i, header := range records[0] {
			if header != column.header {
				continue
			}
			v, err := strconv.ParseFloat(records[1][i], 64)
			if err != nil {
				return nil, err
			}
			metrics = append(metrics, bench.Metric{Name: test + "_" + column.name, Value: v * column.factor, Unit: column.unit})
		}
	}
	return metrics, nil
}
