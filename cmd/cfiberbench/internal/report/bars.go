package report

import (
	"image/color"
	"math"
	"strings"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/human"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

var (
	ink   = color.Gray{Y: 0x22}
	faint = color.Gray{Y: 0xdd}
	ours  = color.RGBA{R: 0x14, G: 0x50, B: 0x8c, A: 0xff}
)

// isLimit reports whether a subject is what the machine allows, and nothing one would use.
func isLimit(subject string) bool {
	for _, prefix := range []string{"inline-", "bare", "eventfd"} {
		if strings.HasPrefix(subject, prefix) {
			return true
		}
	}
	return false
}

// bars lie, one for each row. cfiber's is solid, those of others are grey, limits are hatched,
// so that they differ without colour. Each ends with its value, and a whisker from the least
// to the greatest.
type bars struct {
	rows           []bench.Row
	log            bool
	floor, ceiling float64
}

// logAbove is how far values lie apart before the axis becomes logarithmic.
const logAbove = 30

func newBars(rows []bench.Row) *bars {
	b := &bars{rows: rows}
	low, high := math.Inf(1), 0.0
	for _, row := range rows {
		if row.Value > 0 {
			low = min(low, row.Value)
		}
		high = max(high, row.Max)
	}
	if high == 0 {
		b.ceiling = 1
		return b
	}
	const forLabel = 1.4 // room for the value beside the longest bar
	if high/low > logAbove {
		b.log = true
		b.floor = math.Pow(10, math.Floor(math.Log10(low)-0.3))
		b.ceiling = high * math.Pow(high/b.floor, forLabel-1)
		return b
	}
	b.ceiling = high * forLabel
	return b
}

const (
	barThick = 11 // points
	hatchGap = 4
)

func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	x := func(v float64) vg.Length { return toX(max(v, b.floor)) }
	label := p.X.Tick.Label
	label.XAlign, label.YAlign = draw.XLeft, draw.YCenter
	for i, row := range b.rows {
		y := toY(float64(i))
		left, right := toX(b.floor), x(row.Value)
		bar := vg.Rectangle{Min: vg.Point{X: left, Y: y - barThick/2}, Max: vg.Point{X: right, Y: y + barThick/2}}
		fillBar(c, bar, row.Subject)
		end := right
		if row.Runs > 1 && row.Max > row.Min {
			whisker(c, x(row.Min), x(row.Max), y)
			end = max(end, x(row.Max))
		}
		c.FillText(label, vg.Point{X: end + 3, Y: y}, human.Unit(row.Value, row.Unit))
	}
}

func fillBar(c draw.Canvas, r vg.Rectangle, subject string) {
	outline := []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}, r.Min}
	switch {
	case subject == bench.CFiber:
		c.FillPolygon(ours, outline)
	case isLimit(subject):
		hatch(c, r)
	default:
		c.FillPolygon(faint, outline)
	}
	c.StrokeLines(draw.LineStyle{Color: ink, Width: 0.6}, outline)
}

// hatch draws slanted lines, cut off at the edges.
func hatch(c draw.Canvas, r vg.Rectangle) {
	height := r.Max.Y - r.Min.Y
	for x := r.Min.X - height; x < r.Max.X; x += hatchGap {
		from, to := vg.Point{X: x, Y: r.Min.Y}, vg.Point{X: x + height, Y: r.Max.Y}
		if d := r.Min.X - from.X; d > 0 {
			from = vg.Point{X: from.X + d, Y: from.Y + d}
		}
		if d := to.X - r.Max.X; d > 0 {
			to = vg.Point{X: to.X - d, Y: to.Y - d}
		}
		c.StrokeLine2(draw.LineStyle{Color: ink, Width: 0.5}, from.X, from.Y, to.X, to.Y)
	}
}

func whisker(c draw.Canvas, from, to, y vg.Length) {
	// White below, so that it shows on a dark bar too.
	for _, style := range []draw.LineStyle{{Color: color.White, Width: 2}, {Color: ink, Width: 0.8}} {
		c.StrokeLine2(style, from, y, to, y)
		for _, x := range []vg.Length{from, to} {
			c.StrokeLine2(style, x, y-3, x, y+3)
		}
	}
}
