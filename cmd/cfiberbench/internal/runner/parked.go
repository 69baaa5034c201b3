package runner

import (
	"context"
	"time"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/child"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/proc"
)

// parked starts a subject whose units park, calls look when they have, and ends it.
func (r *Runner) parked(ctx context.Context, argv []string, look func(pid int) error) error {
	if proc.ErrUnknown != nil {
		return &child.UnsupportedError{Reason: proc.ErrUnknown.Error()}
	}
	c, err := child.Start(ctx, argv, r.Limit)
	if err != nil {
		return err
	}
	defer c.Kill()
	if _, err := c.Expect("PARKED"); err != nil {
		return err
	}
	if err := look(c.PID()); err != nil {
		return err
	}
	_, err = c.Finish()
	return err
}

func (r *Runner) memory(ctx context.Context, c bench.Case, e *entrant) ([]bench.Metric, error) {
	n, err := e.params.Int("n", 0)
	if err != nil {
		return nil, err
	}
	// What the process has with one unit is not the units'.
	var base, full proc.Memory
	one := *e
	one.params = e.params.With(bench.P("n", 1))
	err = r.parked(ctx, r.command(c, &one), func(pid int) (err error) {
		base, err = proc.ReadMemory(pid)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = r.parked(ctx, r.command(c, e), func(pid int) (err error) {
		full, err = proc.ReadMemory(pid)
		return err
	})
	if err != nil {
		return nil, err
	}
	each := func(full, base int64) float64 { return float64(full-base) / float64(n-1) }
	rss, tables := each(full.Resident, base.Resident), each(full.PageTables, base.PageTables)
	return []bench.Metric{
		{Name: "total", Value: rss + tables, Unit: "B/unit"},
		{Name: "rss", Value: rss, Unit: "B/unit"},
		{Name: "pagetables", Value: tables, Unit: "B/unit"},
		{Name: "mappings", Value: float64(full.Mappings), Unit: "mappings"},
	}, nil
}

// settle is how long the units are left alone before the count of wake-ups begins: what starting
// them set off shall be over.
const settle = 500 * time.Millisecond

func (r *Runner) idle(ctx context.Context, c bench.Case, e *entrant) ([]bench.Metric, error) {
	d, err := e.params.Seconds("seconds", time.Second)
	if err != nil {
		return nil, err
	}
	plain := *e
	plain.params = c.Params
	var cpu [2]time.Duration
	var wakeups [2]int64
	err = r.parked(ctx, r.command(c, &plain), func(pid int) (err error) {
		for i, wait := range []time.Duration{min(settle, d), d} {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return ctx.Err()
			}
			if cpu[i], err = proc.CPU(pid); err != nil {
				return err
			}
			if wakeups[i], err = proc.Wakeups(pid); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return []bench.Metric{
		{Name: "wakeups", Value: float64(wakeups[1]-wakeups[0]) / d.Seconds(), Unit: "1/s"},
		{Name: "used", Value: (cpu[1] - cpu[0]).Seconds() / d.Seconds(), Unit: "cpus"},
	}, nil
}
