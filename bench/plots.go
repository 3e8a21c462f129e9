package main

import (
	"fmt"
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// chart is a picture of one figure: a line for each contestant, with the confidence intervals. Both scales are logarithmic, so
// that equal distances are equal ratios.
type chart struct {
	file, title, x string
	lines          []series
}

type series struct {
	name   string
	points []point
}

type point struct {
	x float64
	y estimate
}

const (
	chartWidth  = 18 * vg.Centimeter
	chartHeight = 11 * vg.Centimeter
)

// palette has colours that colour-blind readers can tell apart (Okabe and Ito), and two greys. The first are ours.
var palette = []color.Color{
	color.RGBA{213, 94, 0, 255}, color.RGBA{204, 121, 167, 255}, color.RGBA{86, 180, 233, 255}, color.RGBA{0, 114, 178, 255},
	color.RGBA{0, 158, 115, 255}, color.RGBA{127, 201, 127, 255}, color.RGBA{0, 0, 0, 255}, color.RGBA{130, 130, 130, 255},
	color.RGBA{230, 159, 0, 255},
}

// room is how much further than the last point the axis reaches, so that its label fits.
const room = 1.5

func (c chart) save(path string) error {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	p := plot.New()
	p.Title.Text, p.X.Label.Text = c.title, c.x
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, c.ticks()
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(2)
	p.Add(plotter.NewGrid())
	for i, s := range c.lines {
		if err := s.addTo(p, i); err != nil {
			return fmt.Errorf("%s: %w", c.file, err)
		}
	}
	p.X.Max *= room
	return p.Save(chartWidth, chartHeight, path)
}

// ticks are at the values of x that were measured.
func (c chart) ticks() (ticks plot.ConstantTicks) {
	seen := map[float64]bool{}
	for _, s := range c.lines {
		for _, point := range s.points {
			if !seen[point.x] {
				seen[point.x] = true
				ticks = append(ticks, plot.Tick{Value: point.x, Label: thousands(int64(point.x))})
			}
		}
	}
	return ticks
}

func (s series) addTo(p *plot.Plot, i int) error {
	line, points, err := plotter.NewLinePoints(s)
	if err != nil {
		return err
	}
	bars, err := plotter.NewYErrorBars(s)
	if err != nil {
		return err
	}
	shade := palette[i%len(palette)]
	line.Color, points.Color, bars.Color = shade, shade, shade
	points.Shape = plotutil.Shape(i)
	line.Width = vg.Points(1)
	if strings.HasPrefix(s.name, ours) {
		line.Width = vg.Points(2.5)
	}
	p.Add(line, points, bars)
	p.Legend.Add(s.name, line, points)
	return nil
}

// Len, XY and YError let gonum draw the series.
func (s series) Len() int { return len(s.points) }

func (s series) XY(i int) (x, y float64) { return s.points[i].x, s.points[i].y.Median }

func (s series) YError(i int) (low, high float64) {
	if e := s.points[i].y; e.known() {
		return e.Low - e.Median, e.High - e.Median
	}
	return 0, 0
}
