// Package runner has subjects do cases, by turns, and makes rows of what they print.
package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/child"
)

// A Subject is a program that is measured.
type Subject struct {
	Name, About string
	Command     []string     // what to start, before the workload and its parameters
	Workloads   []string     // that it does
	Extra       bench.Params // of its own
	Lacks       map[string]string
	Absent      string // why it cannot be started; "": it can
}

// Does reports whether the subject does what the case asks for.
func (s *Subject) Does(c bench.Case) bool {
	return slices.Contains(s.Workloads, c.Asks) &&
		(c.Subjects == nil || slices.Contains(c.Subjects, s.Name))
}

// A Runner measures.
type Runner struct {
	Self     string // cfiberbench's own executable: the generators are other commands of it
	Rounds   int
	Limit    time.Duration // for one subject in one round
	Target   time.Duration // how long a round of a calibrated case shall take
	Progress Progress
}

// Progress is told what is going on.
type Progress interface {
	Start(steps int)
	Step(what string) // before each step
	Note(text string)
	Done()
}

// Run measures each case with each subject that does it.
func (r *Runner) Run(ctx context.Context, cases []bench.Case, all []*Subject) ([]bench.Row, []bench.Problem) {
	var rows []bench.Row
	var problems []bench.Problem
	steps := 0
	for _, c := range cases {
		steps += r.rounds(c) * len(able(c, all))
	}
	r.Progress.Start(steps)
	defer r.Progress.Done()
	for _, c := range cases {
		problems = append(problems, lacks(c, all)...)
		subjects := able(c, all)
		caseRows, caseProblems := r.runCase(ctx, c, subjects)
		rows = append(rows, caseRows...)
		problems = append(problems, caseProblems...)
		if ctx.Err() != nil {
			break
		}
	}
	bench.SetRatios(rows)
	return rows, problems
}

func (r *Runner) rounds(c bench.Case) int {
	if c.MaxRounds > 0 {
		return min(r.Rounds, c.MaxRounds)
	}
	return r.Rounds
}

func able(c bench.Case, all []*Subject) []*Subject {
	var subjects []*Subject
	for _, s := range all {
		if s.Absent == "" && s.Does(c) {
			subjects = append(subjects, s)
		}
	}
	return subjects
}

// lacks says which subjects one might expect in a case and does not find.
func lacks(c bench.Case, all []*Subject) []bench.Problem {
	var problems []bench.Problem
	for _, s := range all {
		switch {
		case s.Lacks[c.Asks] != "" && (c.Subjects == nil || slices.Contains(c.Subjects, s.Name)):
			problems = append(problems, problem(c, s, bench.Unsupported, s.Lacks[c.Asks]))
		case s.Absent != "" && s.Does(c):
			problems = append(problems, problem(c, s, bench.Absent, s.Absent))
		}
	}
	return problems
}

func problem(c bench.Case, s *Subject, kind, reason string) bench.Problem {
	return bench.Problem{Workload: c.Workload, Params: c.Params, Subject: s.Name, Kind: kind, Reason: reason}
}

// An entrant is a subject in one case.
type entrant struct {
	*Subject
	params bench.Params
	runs   [][]bench.Metric
}

// runCase has the subjects take turns: A B C, A B C. One that fails is left out from then on,
// and has no rows.
func (r *Runner) runCase(ctx context.Context, c bench.Case, subjects []*Subject) ([]bench.Row, []bench.Problem) {
	var problems []bench.Problem
	var entrants []*entrant
	for _, s := range subjects {
		entrants = append(entrants, &entrant{Subject: s, params: c.Params.With(c.Effort)})
	}
	for round := range r.rounds(c) {
		for i := 0; i < len(entrants); i++ {
			e := entrants[i]
			r.Progress.Step(fmt.Sprintf("%s  %s", c.Name(), e.Name))
			metrics, err := r.turn(ctx, c, e, round)
			if ctx.Err() != nil {
				return nil, problems // what is half measured is not shown
			}
			if err == nil {
				e.runs = append(e.runs, metrics)
				continue
			}
			p := problem(c, e.Subject, bench.Failed, err.Error())
			if unsupported := new(child.UnsupportedError); errors.As(err, &unsupported) {
				p.Kind = bench.Unsupported
			} else {
				r.Progress.Note(fmt.Sprintf("%s: %s failed: %v", c.Name(), e.Name, err))
			}
			problems = append(problems, p)
			entrants = slices.Delete(entrants, i, i+1)
			i--
		}
	}
	var rows []bench.Row
	for _, e := range entrants {
		rows = append(rows, rowsOf(c, e)...)
	}
	return rows, problems
}

// turn is one subject's turn in one round.
func (r *Runner) turn(ctx context.Context, c bench.Case, e *entrant, round int) ([]bench.Metric, error) {
	if c.Calibrate && round == 0 {
		if err := r.calibrate(ctx, c, e); err != nil {
			return nil, err
		}
	}
	switch c.Kind {
	case bench.Memory:
		return r.memory(ctx, c, e)
	case bench.Idle:
		return r.idle(ctx, c, e)
	case bench.Echo:
		return r.echo(ctx, c, e)
	case bench.Redis:
		return r.redis(ctx, c, e)
	default:
		return child.Run(ctx, r.command(c, e), r.Limit)
	}
}

func (r *Runner) command(c bench.Case, e *entrant) []string {
	return slices.Concat(e.Command, []string{c.Asks}, e.params.With(e.Extra).Args())
}

// calibrate finds the n for which a round takes about the target's time. Few operations can be
// far slower than many, each, so it gets there by steps; they also warm up what can be warm.
func (r *Runner) calibrate(ctx context.Context, c bench.Case, e *entrant) error {
	const growth = 100
	n, err := e.params.Int("n", 0)
	if err != nil || n < 1 {
		return fmt.Errorf("%s has no n to begin with", c.Name())
	}
	fibers, err := e.params.Int("fibers", 2)
	if err != nil {
		return err
	}
	least := 10 * fibers // so that each has something to do
	for {
		metrics, err := child.Run(ctx, r.command(c, e), r.Limit)
		if err != nil {
			return err
		}
		each := timeOf(metrics)
		if each <= 0 {
			return fmt.Errorf("it printed no time in ns/op")
		}
		want := max(int(float64(r.Target.Nanoseconds())/each), least)
		if want > n*growth {
			n *= growth
			e.params = e.params.With(bench.P("n", strconv.Itoa(n)))
			continue
		}
		e.params = e.params.With(bench.P("n", strconv.Itoa(want)))
		return nil
	}
}

func timeOf(metrics []bench.Metric) float64 {
	for _, m := range metrics {
		if m.Name == "time" && m.Unit == "ns/op" {
			return m.Value
		}
	}
	return 0
}

// rowsOf makes a row of each metric that the subject printed in every round.
func rowsOf(c bench.Case, e *entrant) []bench.Row {
	var rows []bench.Row
	if len(e.runs) == 0 {
		return nil
	}
	for _, m := range e.runs[0] {
		var values []float64
		for _, run := range e.runs {
			for _, other := range run {
				if other.Name == m.Name && other.Unit == m.Unit {
					values = append(values, other.Value)
				}
			}
		}
		if len(values) == len(e.runs) {
			rows = append(rows, bench.NewRow(c.Workload, e.Name, c.Params, m.Name, m.Unit, values))
		}
	}
	return rows
}
