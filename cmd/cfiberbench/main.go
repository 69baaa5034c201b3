// Command cfiberbench measures cfiber beside what its users would pick instead. README.md has
// its subjects and workloads.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/child"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/subjects"
)

const usage = `usage: cfiberbench COMMAND [ARGUMENT...]

  list                            cases, subjects, and which are missing here and why
      -subjects                   only the subjects
      -packages                   what Debian calls the packages that the peers need
  run [FLAGS]                     measure
      -run REGEXP                 only the cases whose name matches (yield/fibers=2, busy/echo, ...)
      -peers all|none|NAME,...    which peers take part (default all that can be built);
                                  cfiber and the Go subjects always do
      -count N                    rounds (default 5; with -quick 1)
      -quick                      few, short cases: shows that all works, not how fast
      -limit DURATION             for one subject in one round (default 5m; with -quick 20s)
      -format text|bench|json     bench is Go's benchmark format, for benchstat
      -o FILE                     write there instead of to stdout
  report FILE... [-o report.html] make one page of what run -format json wrote
  summary FILE... -into README.md -plot SVG
                                  put a table of what the bars are about into a document, between
                                  its lines that say "measured by cfiberbench", and plot it
`

// An argumentError is the user's mistake.
type argumentError struct{ error }

func wrong(format string, args ...any) error { return argumentError{fmt.Errorf(format, args...)} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := dispatch(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(status(err))
}

func status(err error) int {
	var unsupported subjects.UnsupportedError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
		return 0
	case errors.As(err, &unsupported):
		fmt.Fprintln(os.Stderr, err)
		return child.StatusUnsupported
	case errors.As(err, &argumentError{}):
		fmt.Fprintf(os.Stderr, "cfiberbench: %v\n\n%s", err, usage)
		return 2
	default:
		fmt.Fprintln(os.Stderr, "cfiberbench:", err)
		return 1
	}
}

func dispatch(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return wrong("which command?")
	}
	switch command, args := args[0], args[1:]; command {
	case "list":
		return list(args, stdout)
	case "run":
		return run(ctx, args, stdout)
	case "report":
		return makeReport(args)
	case "summary":
		return makeSummary(args)
	case "subject": // of run, for itself
		return beSubject(args)
	case "generate":
		return generateLoad(args, stdout)
	case "help", "-h", "-help", "--help":
		return flag.ErrHelp
	default:
		return wrong("there is no command %q", command)
	}
}

func beSubject(args []string) error {
	if len(args) < 2 {
		return wrong("subject wants a NAME and a WORKLOAD")
	}
	params, err := bench.ParseParams(args[2:])
	if err != nil {
		return argumentError{err}
	}
	return subjects.Run(args[0], args[1], params)
}
