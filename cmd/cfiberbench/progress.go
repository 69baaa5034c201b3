package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/runner"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// newProgress returns a bar for a terminal, else plain lines.
func newProgress(f *os.File) runner.Progress {
	if term.IsTerminal(int(f.Fd())) {
		return &bar{w: f}
	}
	return &lines{w: f}
}

// bar is a terminal's progress.
type bar struct {
	w     io.Writer
	bar   *progressbar.ProgressBar
	begun bool
}

func (b *bar) Start(steps int) {
	b.bar = progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(b.w),
		progressbar.OptionFullWidth(),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(50*time.Millisecond),
		progressbar.OptionClearOnFinish())
}

// Step comes before a step, so the bar has moved by those before it.
func (b *bar) Step(what string) {
	if b.begun {
		b.bar.Add(1)
	}
	b.begun = true
	b.bar.Describe(fmt.Sprintf("%-44.44s", what))
}

func (b *bar) Note(text string) {
	b.bar.Clear()
	fmt.Fprintln(b.w, text)
}

func (b *bar) Done() { b.bar.Finish() }

// lines say each step once and, a few seconds apart, how far it is.
type lines struct {
	w           io.Writer
	steps, done int
	begin       time.Time
}

func (l *lines) Start(steps int) { l.steps, l.begin = steps, time.Now() }

func (l *lines) Step(what string) {
	l.done++
	fmt.Fprintf(l.w, "%4d/%d  %4.0fs  %s\n", l.done, l.steps, time.Since(l.begin).Seconds(), what)
}

func (l *lines) Note(text string) { fmt.Fprintln(l.w, text) }

func (l *lines) Done() {}
