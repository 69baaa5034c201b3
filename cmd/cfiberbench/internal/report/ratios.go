package report

import (
	"errors"
	"image/color"
	"math"
	"slices"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/human"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// ratios are bars that begin at 1, which is cfiber: to the right is what takes more.
type ratios struct {
	rows []bench.Row // Value is the ratio
}

const (
	ratioHeight = 15
	margin      = 10 // letters are wider where another font stands in
)

func (b ratios) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	label := p.X.Tick.Label
	label.XAlign, label.YAlign = draw.XLeft, draw.YCenter
	one := toX(1)
	for i, row := range b.rows {
		y, end := toY(float64(i)), toX(row.Value)
		bar := vg.Rectangle{Min: vg.Point{X: min(one, end), Y: y - barThick/2}, Max: vg.Point{X: max(one, end), Y: y + barThick/2}}
		fillBar(c, bar, row.Subject)
		c.FillText(label, vg.Point{X: bar.Max.X + 3, Y: y}, human.Number(row.Value)+"×")
	}
	c.StrokeLine2(draw.LineStyle{Color: color.Black, Width: 1}, one, c.Min.Y, one, c.Max.Y)
}

// Plot is the summary's plot, an SVG document.
func Plot(r *bench.Result) ([]byte, error) {
	var b ratios
	var names []string
	low, high := 1.0, 1.0
	for _, l := range summarize(r) {
		for _, o := range l.others {
			ratio := l.times(o)
			if ratio <= 0 || math.IsInf(ratio, 0) || math.IsNaN(ratio) {
				continue // has no place on the axis
			}
			o.Value = ratio
			b.rows, names = append(b.rows, o), append(names, l.about+": "+o.Subject)
			low, high = min(low, ratio), max(high, ratio)
		}
	}
	if len(b.rows) == 0 {
		return nil, errors.New("nothing was measured beside cfiber")
	}
	p := newPlot()
	p.BackgroundColor = color.White // of a page that may be dark
	p.Add(b)
	slices.Reverse(b.rows) // the first is on top
	slices.Reverse(names)
	p.NominalY(names...)
	p.Y.Tick.Length, p.Y.Width = 0, 0
	p.Y.Min, p.Y.Max = -0.6, float64(len(names))-0.4
	p.X.Min, p.X.Max = low/1.5, high*3 // room for the numbers
	p.X.Scale = plot.LogScale{}
	p.X.Tick.Marker = valueTicks{unit: "×", log: true}
	p.X.Label.Text = "times what cfiber takes, or, of throughput, 1 / times what it does: right of 1 is worse than cfiber"
	p.X.Label.TextStyle.Font.Size = 9
	height := vg.Length(50 + 2*margin + ratioHeight*len(names))
	return document(2*plotWidth, height, func(c draw.Canvas) {
		p.Draw(draw.Crop(c, margin, -margin, margin, -margin))
	})
}
