//go:build cgo

// Command demo shows what cfiber is for, and checks what it shows.
//
//  1. Many C calls at once that sleep and call back into Go: on fibers, and as
//     plain cgo calls, side by side.
//  2. A Redis server written as blocking C code, a fiber per connection, under
//     a client that checks every reply.
//
// Each measurement is made in a process of its own, which the demo starts, so
// that one does not disturb the other's figures. It exits with status 1 if
// anything is not as it should be.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/cfiber/cfiber/examples/redis/loadgen"
)

// limit ends a part that hangs.
const limit = 60 * time.Second

type demo struct {
	calls    int
	conns    int
	duration time.Duration

	part string // one part, run in a process of its own
	addr string // of the server, for the client's part

	progress *progress
}

func main() {
	d := demo{progress: newProgress()}
	flag.IntVar(&d.calls, "calls", 10_000, "C calls at once")
	flag.IntVar(&d.conns, "conns", 2_000, "Redis connections at once")
	flag.DurationVar(&d.duration, "duration", 5*time.Second, "how long to drive the Redis server")
	flag.StringVar(&d.part, "part", "", "run one `part` for the demo: fibers, threads, probe or client")
	flag.StringVar(&d.addr, "addr", "", "the server's `address`, for -part client")
	flag.Parse()
	if flag.NArg() > 0 || d.calls < 1 || d.conns < 1 || d.duration <= 0 {
		flag.Usage()
		os.Exit(2)
	}

	var err error
	if d.part != "" {
		err = d.runPart()
	} else {
		err = d.run()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

func (d *demo) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	start := time.Now()
	fmt.Printf("cfiber: C functions on fibers (%s/%s, %d CPUs, %s)\n",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	if err := d.compareCalls(ctx); err != nil {
		return err
	}
	if err := d.tryRedis(ctx); err != nil {
		return err
	}
	fmt.Printf("\nAll results and replies were right. %s\n", seconds(time.Since(start)))
	return nil
}

// ---- Part 1 -----------------------------------------------------------------

func (d *demo) compareCalls(ctx context.Context) error {
	fmt.Printf("\n1. %s C calls at once. Each sleeps %d x %d ms in C and calls Go once.\n\n",
		count(int64(d.calls)), pauses, pause.Milliseconds())

	d.progress.phase("on fibers ...")
	var fibers, threads callsResult
	if err := d.start(ctx, &fibers, "on fibers: ", "-part", "fibers", "-calls", fmt.Sprint(d.calls)); err != nil {
		return err
	}
	d.progress.phase("finding out how many threads a process may have here ...")
	n, why, err := d.plainCalls(ctx)
	if err != nil {
		return err
	}
	for {
		d.progress.phase("as plain cgo calls ...")
		err := d.start(ctx, &threads, "as plain cgo calls: ", "-part", "threads", "-calls", fmt.Sprint(n))
		if err == nil {
			break
		}
		// That process ran out of something after all, and Go does not survive that.
		if n /= 2; n < 100 || ctx.Err() != nil {
			return err
		}
		why = "with more, the process died"
	}
	d.progress.clear()
	printCalls(fibers, threads)
	if why != "" {
		fmt.Printf("\n   Only %s plain cgo calls: %s.\n", count(int64(n)), why)
	}
	return nil
}

// plainCalls is how many plain cgo calls there can be at once, each of which
// takes a thread, and if fewer than asked for, why.
func (d *demo) plainCalls(ctx context.Context) (n int, why string, err error) {
	const (
		others   = 50 // threads that the process has anyway
		slowness = 3  // of a thread started by Go, to one started by C
		patience = 14 * time.Second
	)
	var probe probeResult
	if err := d.start(ctx, &probe, "", "-part", "probe", "-calls", fmt.Sprint(d.calls+others)); err != nil {
		return 0, "", err
	}
	if n = d.calls; probe.Threads < n+others {
		n = max(probe.Threads-others, 1)
		why = "the system lets a process have no more threads"
	}
	each := slowness * probe.Elapsed / time.Duration(max(probe.Threads, 1))
	if soon := int(patience / max(each, 1)); soon < n {
		n = max(soon, 1)
		why = "starting more threads would take the demo too long here"
	}
	return n, why, nil
}

func printCalls(fibers, threads callsResult) {
	row := func(name string, value func(r callsResult) string) {
		fmt.Printf("   %-22s%14s%18s\n", name, value(fibers), value(threads))
	}
	fmt.Printf("   %-22s%14s%18s\n", "", "on fibers", "plain cgo calls")
	row("calls at once", func(r callsResult) string { return count(int64(r.Calls)) })
	row("all in C after", func(r callsResult) string { return fmt.Sprintf("%.2f s", r.Gathered.Seconds()) })
	row("all returned after", func(r callsResult) string { return fmt.Sprintf("%.2f s", r.Wall.Seconds()) })
	row("OS threads", func(r callsResult) string { return count(int64(r.Threads)) })
	row("resident per call", func(r callsResult) string { return kibibytes(r.Bytes / int64(r.Calls)) })
}

// ---- Part 2 -----------------------------------------------------------------

func (d *demo) tryRedis(ctx context.Context) error {
	conns := connsPossible(d.conns)
	fmt.Printf("\n2. A Redis server in blocking-style C: a fiber for each of %s connections at once.\n\n", count(int64(conns)))
	d.progress.phase("starting the client, a process of its own ...")
	result, err := serveRedis(func(addr string) (load loadgen.Result, err error) {
		err = d.start(ctx, &load, "", "-part", "client", "-addr", addr, "-conns", fmt.Sprint(conns), "-duration", d.duration.String())
		return load, err
	})
	if err != nil {
		return err
	}
	d.progress.clear()
	row := func(name, value, remark string) {
		fmt.Printf("   %-22s%14s%s\n", name, value, remark)
	}
	load := result.Load
	row("requests", count(int64(load.Requests)), "   SET, GET, INCR, ECHO and DEL in batches of 1 to 16")
	row("per second", count(int64(load.Rate())), "")
	row("latency p50", milliseconds(load.P50), "   of a batch, all connections busy")
	row("latency p99", milliseconds(load.P99), "")
	row("wrong replies", count(int64(load.Errors)), "   every byte is checked")
	row("OS threads", count(int64(result.Threads)), "   of the server's process")
	row("resident", kibibytes(result.Bytes/int64(conns)), "   for each connection, the store included")
	if conns < d.conns {
		fmt.Printf("\n   The limit of open files allows no more than %s connections.\n", count(int64(conns)))
	}
	return nil
}

// ---- Processes -----------------------------------------------------------------

// A message is what a part's process writes, a line of JSON each.
type message struct {
	Progress string          `json:",omitempty"`
	Result   json.RawMessage `json:",omitempty"`
}

// start runs a part in a process of its own, shows its progress, and stores its result.
func (d *demo) start(ctx context.Context, result any, prefix string, args ...string) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := d.follow(stdout, result, prefix)
	io.Copy(io.Discard, stdout)
	err = cmd.Wait()
	if err = errors.Join(err, readErr); ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		d.progress.clear()
		return fmt.Errorf("part %s: %w\n%s", args[1], err, firstLines(stderr.String(), 20))
	}
	return nil
}

func (d *demo) follow(r io.Reader, result any, prefix string) error {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return err
		}
		if m.Result != nil {
			return json.Unmarshal(m.Result, result)
		}
		d.progress.show(prefix + m.Progress)
	}
	return errors.New("it ended without a result")
}

func firstLines(s string, n int) string {
	lines := strings.SplitAfterN(s, "\n", n+1)
	return strings.TrimSpace(strings.Join(lines[:min(n, len(lines))], ""))
}

// runPart is what such a process does.
func (d *demo) runPart() error {
	out := json.NewEncoder(os.Stdout)
	report := func(text string) { out.Encode(message{Progress: text}) }
	var result any
	var err error
	switch d.part {
	case "fibers":
		result, err = callsOnFibers(d.calls, report)
	case "threads":
		result, err = callsOnThreads(d.calls, report)
	case "probe":
		result = probeThreads(d.calls)
	case "client":
		result, err = driveRedis(d.addr, d.conns, d.duration, report)
	default:
		err = fmt.Errorf("there is no part %q", d.part)
	}
	if err != nil {
		return err
	}
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return out.Encode(message{Result: text})
}
