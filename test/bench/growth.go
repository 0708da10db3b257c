package main

import (
	"fmt"
	"image/color"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// curve is a cost that was measured at several sizes.
type curve struct {
	// of says what was counted, and cost in which unit the cost is.
	of, cost string
	points   plotter.XYs
}

// grows adds a point to a curve: what n of something cost.
func (r *report) grows(name, of, cost string, n int, y float64) {
	if r.curves == nil {
		r.curves = map[string]*curve{}
	}
	if r.curves[name] == nil {
		r.curves[name] = &curve{of: of, cost: cost}
	}
	r.curves[name].points = append(r.curves[name].points, plotter.XY{X: float64(n), Y: y})
}

// exponent is b of the line cost = a * n^b that fits best, by least squares of the logarithms; it
// is 1 where the cost of one does not depend on their number. A curve of fewer than three points
// above zero has none.
func (c *curve) exponent() (a, b float64, ok bool) {
	var x, y []float64
	for _, p := range c.points {
		if p.X > 0 && p.Y > 0 {
			x, y = append(x, math.Log(p.X)), append(y, math.Log(p.Y))
		}
	}
	if len(x) < 3 {
		return 0, 0, false
	}
	alpha, beta := stat.LinearRegression(x, y, nil, false)
	return math.Exp(alpha), beta, true
}

// growth prints the exponents of all curves, and draws each into a file of dir unless that is
// empty.
func (r *report) growth(dir string) error {
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(r.curves)) {
		c := r.curves[name]
		a, b, ok := c.exponent()
		if !ok {
			continue
		}
		first, last := c.points[0], c.points[len(c.points)-1]
		rows = append(rows, []string{name, c.cost, fmt.Sprintf("%.0f to %.0f %s", first.X, last.X, c.of), fmt.Sprintf("%.3g to %.3g", first.Y, last.Y), fmt.Sprintf("%.2f", b)})
		if dir == "" {
			continue
		}
		if err := c.drawTo(filepath.Join(dir, "growth-"+name+".svg"), a, b); err != nil {
			return fmt.Errorf("picture of %s: %w", name, err)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	r.heading("How the cost grows")
	r.table([]string{"what", "in", "from", "cost", "exponent"}, rows)
	return nil
}

// drawTo draws the curve and its fit, both axes logarithmic.
func (c *curve) drawTo(path string, a, b float64) error {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s ~ %s^%.2f", c.cost, c.of, b)
	p.X.Label.Text, p.Y.Label.Text = c.of, c.cost
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	points, err := plotter.NewScatter(c.points)
	if err != nil {
		return err
	}
	points.Shape, points.Color = draw.CircleGlyph{}, color.RGBA{R: 0x1f, G: 0x4e, B: 0x79, A: 0xff}
	var fit plotter.XYs
	for _, at := range c.points {
		fit = append(fit, plotter.XY{X: at.X, Y: a * math.Pow(at.X, b)})
	}
	line, err := plotter.NewLine(fit)
	if err != nil {
		return err
	}
	line.Color = color.Gray{Y: 0x90}
	p.Add(plotter.NewGrid(), line, points)
	svg, err := p.WriterTo(5*vg.Inch, 3*vg.Inch, "svg")
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := svg.WriteTo(io.Writer(f)); err != nil {
		return err
	}
	return f.Close()
}
