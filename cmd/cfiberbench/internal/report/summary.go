package report

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/human"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/output"
)

// The summary is one table and one plot of what the bars are about, for a README.

// A summaryLine is a number of cfiber's and those that it is held against.
type summaryLine struct {
	about  string
	more   bool // more is better
	ours   bench.Row
	others []bench.Row
}

// times is how much more another takes than cfiber, or, where more is better, does less.
func (l summaryLine) times(other bench.Row) float64 {
	if l.more {
		return l.ours.Value / other.Value
	}
	return other.Value / l.ours.Value
}

// summarize makes a line of all bars on the same number, those against numbers of cfiber's own
// left out.
func summarize(r *bench.Result) []summaryLine {
	var lines []summaryLine
	for _, b := range bench.Bars {
		ours, ok := bench.Find(r.Rows, b.Case, b.Metric, bench.CFiber)
		if !ok || b.Other != "" {
			continue
		}
		i := slices.IndexFunc(lines, func(l summaryLine) bool {
			return l.ours.Case() == b.Case && l.ours.Metric == b.Metric
		})
		if i < 0 {
			i = len(lines)
			lines = append(lines, summaryLine{about: b.About, more: b.Least, ours: ours})
		}
		subjects := b.Subjects
		if subjects == nil { // the bar is a number; for comparison
			subjects = []string{"go"}
		}
		for _, s := range subjects {
			if row, ok := bench.Find(r.Rows, b.Case, b.Metric, s); ok {
				lines[i].others = append(lines[i].others, row)
			}
		}
	}
	return lines
}

// Markdown is the table, below it where the numbers are from.
func Markdown(r *bench.Result) string {
	var b strings.Builder
	fmt.Fprintln(&b, "| | cfiber | others, and how many times cfiber's that is | made by `./build.sh bench -run` |")
	fmt.Fprintln(&b, "|---|---|---|---|")
	for _, l := range summarize(r) {
		var others []string
		for _, o := range l.others {
			text := o.Subject + " " + human.Unit(o.Value, o.Unit)
			if l.ours.Value != 0 {
				text += fmt.Sprintf(" (%s×)", human.Number(o.Value/l.ours.Value))
			}
			others = append(others, text)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | `'^%s$'` |\n", html.EscapeString(l.about),
			human.Unit(l.ours.Value, l.ours.Unit), html.EscapeString(strings.Join(others, ", ")),
			regexp.QuoteMeta(l.ours.Case()))
	}
	fmt.Fprintf(&b, "\n%s.\n", html.EscapeString(strings.ReplaceAll(output.About(r), "\n", "; ")))
	return b.String()
}

// What stands between these in a document is the summary.
const (
	summaryBegin = "<!-- measured by cfiberbench: begin -->\n"
	summaryEnd   = "<!-- measured by cfiberbench: end -->"
)

// ErrNoPlace is the error of Insert.
var ErrNoPlace = errors.New("the document has no place for the summary: the lines " +
	strings.TrimSpace(summaryBegin) + " and " + summaryEnd)

// Insert puts the summary into a document in place of the one before.
func Insert(document, summary []byte) ([]byte, error) {
	before, rest, begins := bytes.Cut(document, []byte(summaryBegin))
	_, after, ends := bytes.Cut(rest, []byte(summaryEnd))
	if !begins || !ends {
		return nil, ErrNoPlace
	}
	return slices.Concat(before, []byte(summaryBegin), summary, []byte(summaryEnd), after), nil
}
