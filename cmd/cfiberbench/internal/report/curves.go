package report

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/human"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Curves differ by mark and by dashes. Beside cfiber's, all are of one colour.
var (
	marks = []draw.GlyphDrawer{
		draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{},
		draw.RingGlyph{}, draw.PyramidGlyph{}, draw.BoxGlyph{},
	}
	dashes = [][]vg.Length{{5, 2}, {1.5, 1.5}, {6, 2, 1.5, 2}, {3, 3}, {8, 3}, {2, 4}}
)

func addCurves(p *plot.Plot, legend *plot.Legend, over string, rows []bench.Row) error {
	var names []string
	curves := map[string]plotter.XYs{}
	for _, row := range rows {
		x, err := strconv.ParseFloat(row.Params.Get(over), 64)
		if err != nil {
			return fmt.Errorf("%s of %s is not a number", over, row.Case())
		}
		if row.Value <= 0 || x <= 0 {
			continue // no place on a logarithmic axis
		}
		if curves[row.Subject] == nil {
			names = append(names, row.Subject)
		}
		curves[row.Subject] = append(curves[row.Subject], plotter.XY{X: x, Y: row.Value})
	}
	other := 0
	for _, name := range names {
		points := curves[name]
		slices.SortFunc(points, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
		line, mark, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.Width, line.Color = 1, color.Gray{Y: 0x44}
		mark.GlyphStyle = draw.GlyphStyle{Color: color.Gray{Y: 0x44}, Radius: 2.6}
		if name == bench.CFiber {
			line.Width, line.Color = 2, ours
			mark.Shape, mark.Color, mark.Radius = draw.CircleGlyph{}, ours, 3
		} else {
			line.Dashes = dashes[other%len(dashes)]
			mark.Shape = marks[other%len(marks)]
			other++
		}
		p.Add(line, mark)
		legend.Add(name, line, mark)
	}
	return nil
}

// pointTicks are at the values that were measured.
func pointTicks(over string, rows []bench.Row) plot.Ticker {
	var ticks plot.ConstantTicks
	for _, row := range rows {
		x, err := strconv.ParseFloat(row.Params.Get(over), 64)
		if err == nil && !slices.ContainsFunc(ticks, func(t plot.Tick) bool { return t.Value == x }) {
			ticks = append(ticks, plot.Tick{Value: x, Label: human.Short(x)})
		}
	}
	return ticks
}

func grid() plot.Plotter {
	g := plotter.NewGrid()
	g.Vertical.Width, g.Horizontal.Width = 0.3, 0.3
	g.Vertical.Color, g.Horizontal.Color = color.Gray{Y: 0xcc}, color.Gray{Y: 0xcc}
	return g
}

// roundOut widens a range to round numbers on a logarithmic axis.
func roundOut(low, high float64) (float64, float64) {
	if !(low > 0) || math.IsInf(high, 0) {
		return 1, 10
	}
	if low == high {
		low, high = low/2, high*2
	}
	return step(low, math.Floor), step(high, math.Ceil)
}

// step is the next of 1, 2, 5, 10, 20, … below or above.
func step(v float64, round func(float64) float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	steps := []float64{1, 2, 5, 10}
	if round(0.5) == 0 { // down
		for i := len(steps) - 1; i >= 0; i-- {
			if steps[i]*power <= v {
				return steps[i] * power
			}
		}
		return power
	}
	for _, s := range steps {
		if s*power >= v*(1-1e-9) {
			return s * power
		}
	}
	return 10 * power
}

// valueTicks labels few values: on a logarithmic axis powers of ten, and what lies between if
// there are not many.
type valueTicks struct {
	unit string
	log  bool
}

func (t valueTicks) Ticks(low, high float64) []plot.Tick {
	if !t.log {
		return t.linear(low, high)
	}
	var ticks []plot.Tick
	decades := math.Log10(high / low)
	for power := math.Pow(10, math.Floor(math.Log10(low))); power <= high*1.0001; power *= 10 {
		for digit := 1.0; digit < 10; digit++ {
			v := digit * power
			if v < low*0.9999 || v > high*1.0001 {
				continue
			}
			tick := plot.Tick{Value: v}
			if digit == 1 || decades < 2 && (digit == 2 || digit == 5) {
				tick.Label = human.Axis(v, t.unit)
			}
			ticks = append(ticks, tick)
		}
	}
	return ticks
}

func (t valueTicks) linear(low, high float64) []plot.Tick {
	gap := step((high-low)/5, math.Ceil)
	var ticks []plot.Tick
	for i := 0.0; low+i*gap <= high; i++ {
		v := low + i*gap
		ticks = append(ticks, plot.Tick{Value: v, Label: human.Axis(v, t.unit)})
	}
	return ticks
}
