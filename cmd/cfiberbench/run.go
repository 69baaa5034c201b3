package main

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/machine"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/output"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/peers"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/runner"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/subjects"

	_ "github.com/cfiber/cfiber/cmd/cfiberbench/internal/subjects/fiber"
	_ "github.com/cfiber/cfiber/cmd/cfiberbench/internal/subjects/golang"
	_ "github.com/cfiber/cfiber/cmd/cfiberbench/internal/subjects/realredis"
)

//go:embed peers
var peerSources embed.FS

// options of the command run.
type options struct {
	run    *regexp.Regexp
	peers  []string // names; or one of "all", "none"
	count  int
	quick  bool
	limit  time.Duration
	format string
	output string
}

func parseOptions(args []string) (options, error) {
	var o options
	set := newFlags("run")
	pattern := set.String("run", "", "")
	names := set.String("peers", "all", "")
	set.IntVar(&o.count, "count", 0, "")
	set.BoolVar(&o.quick, "quick", false, "")
	set.DurationVar(&o.limit, "limit", 0, "")
	set.StringVar(&o.format, "format", "text", "")
	set.StringVar(&o.output, "o", "", "")
	if err := set.Parse(args); err != nil {
		return o, flagError(err)
	}
	if set.NArg() > 0 {
		return o, wrong("run: unexpected argument %q", set.Arg(0))
	}
	given := map[string]bool{}
	set.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["count"] {
		o.count = pick(o.quick, 1, 5)
	}
	if !given["limit"] {
		o.limit = pick(o.quick, 20*time.Second, 5*time.Minute)
	}
	var err error
	switch {
	case o.count < 1:
		return o, wrong("-count %d: at least one round is needed", o.count)
	case o.limit <= 0:
		return o, wrong("-limit %v: it must be more than nothing", o.limit)
	case output.Formats[o.format] == nil:
		return o, wrong("-format %s: there are text, bench and json", o.format)
	}
	if o.run, err = regexp.Compile(*pattern); err != nil {
		return o, wrong("-run %s: %v", *pattern, err)
	}
	o.peers = strings.Split(*names, ",")
	return o, nil
}

func newFlags(name string) *flag.FlagSet {
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.SetOutput(io.Discard) // we say it ourselves
	return set
}

func flagError(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	return argumentError{err}
}

func pick[T any](condition bool, yes, no T) T {
	if condition {
		return yes
	}
	return no
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	cases := slices.DeleteFunc(bench.Cases(runtime.NumCPU(), o.quick), func(c bench.Case) bool {
		return !o.run.MatchString(c.Name())
	})
	if len(cases) == 0 {
		return wrong("-run %v matches no case; cfiberbench list shows them", o.run)
	}
	all, err := allSubjects(o.peers)
	if err != nil {
		return err
	}
	// Opened before anything is measured, so that a bad name costs nothing.
	out := stdout
	if o.output != "" {
		f, err := os.Create(o.output)
		if err != nil {
			return err
		}
		defer f.Close()
		out = f
	}
	result := measure(ctx, o, cases, all)
	if err := output.Formats[o.format](out, result); err != nil {
		return err
	}
	if o.format != "text" || o.output != "" {
		output.Bars(os.Stderr, result)
	}
	return verdict(ctx, result)
}

func measure(ctx context.Context, o options, cases []bench.Case, all []*runner.Subject) *bench.Result {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	r := &runner.Runner{
		Self: self, Rounds: o.count, Limit: o.limit,
		Target:   pick(o.quick, 5*time.Millisecond, 300*time.Millisecond),
		Progress: newProgress(os.Stderr),
	}
	started := time.Now()
	rows, problems := r.Run(ctx, cases, all)
	return &bench.Result{
		Machine: machine.Describe(), Started: started.UTC(), Seconds: time.Since(started).Seconds(),
		Command: strings.Join(append([]string{"cfiberbench"}, os.Args[1:]...), " "),
		Quick:   o.quick, Rounds: o.count, Rows: rows, Problems: problems, Bars: bench.Judge(rows),
	}
}

// verdict is an error if cfiber itself failed somewhere, or nothing was measured.
func verdict(ctx context.Context, result *bench.Result) error {
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	failed := 0
	for _, p := range result.Problems {
		if p.Kind == bench.Failed {
			failed++
		}
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%d subjects failed, see above", failed)
	case len(result.Rows) == 0:
		return errors.New("nothing was measured")
	}
	return nil
}

// allSubjects returns those of cfiberbench itself, and the peers wanted.
func allSubjects(wanted []string) ([]*runner.Subject, error) {
	sources, err := fs.Sub(peerSources, "peers")
	if err != nil {
		return nil, err
	}
	found, err := peers.Find(sources)
	if err != nil {
		return nil, err
	}
	known := []string{"all", "none"}
	for _, s := range subjects.All {
		if s.Needs != "" {
			known = append(known, s.Name)
		}
	}
	for _, p := range found {
		known = append(known, p.Name)
	}
	for _, name := range wanted {
		if !slices.Contains(known, name) {
			return nil, wrong("-peers %s: there is no such peer; there are %s", name, strings.Join(known, ", "))
		}
	}
	want := func(name string) bool { return slices.Contains(wanted, "all") || slices.Contains(wanted, name) }
	all, err := ownSubjects(want)
	if err != nil {
		return nil, err
	}
	builder, err := peers.NewBuilder(sources)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(p peers.Peer) bool { return !want(p.Name) })
	return append(all, peers.Subjects(builder, found)...), nil
}

// ownSubjects are those in Go and cgo; of those that need a program, the ones wanted.
func ownSubjects(want func(string) bool) ([]*runner.Subject, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var all []*runner.Subject
	for _, s := range subjects.All {
		if s.Needs != "" && !want(s.Name) {
			continue
		}
		r := &runner.Subject{
			Name: s.Name, About: s.About, Lacks: s.Lacks, Command: []string{self, "subject", s.Name},
			Workloads: slices.Sorted(maps.Keys(s.Workloads)),
		}
		if s.Needs != "" {
			if _, err := exec.LookPath(s.Needs); err != nil {
				r.Absent = "install " + s.Needs + " (./build.sh bench --peers)"
			}
		}
		all = append(all, r)
	}
	// cfiber first, whatever the order of packages.
	slices.SortStableFunc(all, func(a, b *runner.Subject) int {
		return cmp.Compare(rank(a.Name), rank(b.Name))
	})
	return all, nil
}

func rank(name string) int {
	for i, first := range []string{bench.CFiber, "go", "cgo"} {
		if name == first {
			return i
		}
	}
	return math.MaxInt
}
