package report

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A view is a metric that is drawn: as bars, or over a parameter as curves.
type view struct {
	metric, unit, title string
	over                string // a parameter; "": bars
	more                bool   // more is better
}

var (
	timeBars  = view{metric: "time", unit: "ns/op", title: "time per operation"}
	perCPU    = view{metric: "per_cpu", unit: "op/cpu-s", title: "requests per CPU-second of the server", more: true}
	latency99 = view{metric: "p99", unit: "ns", title: "latency, p99"}
)

func (v view) of(parameter string) view {
	v.over = parameter
	return v
}

// views says what is drawn of a workload; of others it is the time.
var views = map[string][]view{
	"memory": {{metric: "total", unit: "B/unit", title: "memory per parked unit", over: "n"}},
	"call": {
		{metric: "throughput", unit: "op/s", title: "calls per second", over: "concurrency", more: true},
		{metric: "cpu", unit: "ns/op", title: "CPU per call", over: "concurrency"},
		latency99.of("concurrency"),
	},
	"timers": {
		{metric: "cpu", unit: "ns/op", title: "CPU per wake", over: "n"},
		{metric: "late_p99", unit: "ns", title: "lateness, p99", over: "n"},
	},
	"echo": {perCPU.of("conns"), latency99.of("conns")},
	"redis": {
		{metric: "set_per_cpu", unit: "op/cpu-s", title: "SETs per CPU-second of the server", more: true},
		{metric: "get_per_cpu", unit: "op/cpu-s", title: "GETs per CPU-second of the server", more: true},
	},
	"idle":        {{metric: "wakeups", unit: "1/s", title: "wake-ups per second"}},
	"busy/echo":   {perCPU, latency99},
	"busy/call":   {{metric: "throughput", unit: "op/s", title: "calls per second", more: true}, latency99},
	"scale/yield": {timeBars.of("threads")},
	"scale/spawn": {timeBars.of("threads")},
	"scale/tree":  {timeBars.of("threads")},
	"scale/echo": {
		{metric: "throughput", unit: "op/s", title: "requests per second", over: "threads", more: true},
		perCPU.of("threads"),
	},
}

// plotsOf draws the rows of a workload: one plot for each view, and for each set of the
// parameters that it is not over.
func plotsOf(workload string, rows []bench.Row) ([]figure, error) {
	wanted := views[workload]
	if wanted == nil {
		wanted = []view{timeBars}
	}
	var plots []figure
	for _, v := range wanted {
		var names []string
		groups := map[string][]bench.Row{}
		for _, row := range rows {
			if row.Metric != v.metric || row.Unit != v.unit {
				continue
			}
			name := rest(row.Params, v.over)
			if groups[name] == nil {
				names = append(names, name)
			}
			groups[name] = append(groups[name], row)
		}
		for _, name := range names {
			drawn, err := v.draw(workload, name, groups[name])
			if err != nil {
				return nil, err
			}
			plots = append(plots, drawn)
		}
	}
	return plots, nil
}

// rest is params without one.
func rest(params bench.Params, without string) string {
	return slices.DeleteFunc(slices.Clone(params), func(p bench.Param) bool { return p.Key == without }).String()
}

// A figure is a plot with its caption.
type figure struct {
	Title, Note string
	Plot        template.HTML
}

func (v view) draw(workload, name string, rows []bench.Row) (figure, error) {
	f := figure{Title: strings.TrimSpace(workload + " " + name), Note: v.title + " (" + v.unit + "), less is better"}
	if v.more {
		f.Note = v.title + " (" + v.unit + "), more is better"
	}
	points := map[string]bool{}
	for _, row := range rows {
		points[row.Params.Get(v.over)] = true
	}
	var p *plot.Plot
	var legend *plot.Legend
	height := vg.Length(curveHeight)
	logarithmic := true
	if v.over == "" || len(points) == 1 {
		p, logarithmic = v.bars(rows)
		height = vg.Length(28 + barHeight*len(rows))
	} else {
		var err error
		if p, legend, err = v.curves(rows); err != nil {
			return f, err
		}
	}
	if logarithmic {
		f.Note += "; logarithmic"
	}
	var err error
	f.Plot, err = render(p, legend, height, alt(f.Title, rows))
	return f, err
}

// The size of a plot, in points of which the page makes what fits.
const (
	plotWidth   = 340
	barHeight   = 19
	curveHeight = 190
	legendWidth = 88
)

// bars returns a plot, and whether its axis is logarithmic.
func (v view) bars(rows []bench.Row) (*plot.Plot, bool) {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b bench.Row) int {
		if v.more {
			a, b = b, a
		}
		return cmp.Compare(b.Value, a.Value) // the best is drawn last: on top
	})
	p := newPlot()
	b := newBars(rows)
	p.Add(b)
	names := make([]string, len(rows))
	for i, row := range rows {
		names[i] = row.Subject
	}
	p.NominalY(names...)
	p.Y.Tick.Length, p.Y.Width = 0, 0
	p.X.Min, p.X.Max = b.floor, b.ceiling
	p.Y.Min, p.Y.Max = -0.6, float64(len(rows))-0.4
	p.X.Tick.Marker = valueTicks{unit: v.unit, log: b.log}
	if b.log {
		p.X.Scale = plot.LogScale{}
	}
	return p, b.log
}

func (v view) curves(rows []bench.Row) (*plot.Plot, *plot.Legend, error) {
	p := newPlot()
	legend := plot.NewLegend()
	legend.TextStyle.Font.Size = 9
	legend.Left, legend.Top, legend.Padding = true, true, 3
	legend.ThumbnailWidth = 26
	if err := addCurves(p, &legend, v.over, rows); err != nil {
		return nil, nil, err
	}
	p.X.Label.Text = v.over
	p.X.Label.TextStyle.Font.Size = 9
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker = pointTicks(v.over, rows)
	p.Y.Min, p.Y.Max = roundOut(p.Y.Min, p.Y.Max)
	p.Y.Tick.Marker = valueTicks{unit: v.unit, log: true}
	p.Add(grid())
	return p, &legend, nil
}

func init() {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
}

func newPlot() *plot.Plot {
	p := plot.New()
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Tick.Label.Font.Size = 9
		axis.Width = 0.5
		axis.Tick.Width = 0.5
	}
	p.BackgroundColor = nil
	return p
}

// render returns the plot as an element of a page, with its legend on the right.
func render(p *plot.Plot, legend *plot.Legend, height vg.Length, alt string) (template.HTML, error) {
	svg, err := document(plotWidth, height, func(c draw.Canvas) {
		if legend != nil {
			legend.Draw(draw.Crop(c, plotWidth-legendWidth, 0, 0, 0))
			c = draw.Crop(c, 0, -legendWidth, 0, 0)
		}
		p.Draw(c)
	})
	if err != nil {
		return "", err
	}
	return inline(string(svg), alt)
}

// document returns an SVG document of that size.
func document(width, height vg.Length, paint func(draw.Canvas)) ([]byte, error) {
	svg := vgsvg.New(width, height)
	paint(draw.New(svg))
	var b bytes.Buffer
	_, err := svg.WriteTo(&b)
	return b.Bytes(), err
}

// inline makes an element of an SVG document: sized by the page, with a text for those who
// cannot see it.
func inline(document, alt string) (template.HTML, error) {
	start := strings.Index(document, "<svg")
	if start < 0 {
		return "", fmt.Errorf("the plot is no SVG")
	}
	end := start + strings.Index(document[start:], ">")
	box := ""
	if i := strings.Index(document[start:end], `viewBox="`); i >= 0 {
		box, _, _ = strings.Cut(document[start+i+len(`viewBox="`):end], `"`)
	}
	if box == "" {
		return "", fmt.Errorf("the plot has no viewBox")
	}
	head := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="%s" role="img" aria-label="%s">`,
		box, template.HTMLEscapeString(alt))
	return template.HTML(head + document[end+1:]), nil
}

// alt says in words what a plot shows.
func alt(title string, rows []bench.Row) string {
	var words []string
	for _, row := range rows {
		words = append(words, strings.TrimSpace(fmt.Sprintf("%s %s %s", row.Subject, row.Params, strconv.FormatFloat(row.Value, 'g', 4, 64))))
	}
	return title + ": " + strings.Join(words, "; ")
}
