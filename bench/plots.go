package main

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// chart is a picture of one figure: a line for each contestant, with its confidence intervals. Both scales are
// logarithmic, so that equal distances are equal ratios.
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

// palette has a colour for each contestant, in the order of the contestants. Ours come first. Most are colours that
// colour-blind readers can distinguish (Okabe and Ito); two are greys.
var palette = []color.Color{
	color.RGBA{213, 94, 0, 255}, color.RGBA{204, 121, 167, 255}, color.RGBA{86, 180, 233, 255}, color.RGBA{0, 114, 178, 255},
	color.RGBA{0, 158, 115, 255}, color.RGBA{127, 201, 127, 255}, color.RGBA{0, 0, 0, 255}, color.RGBA{130, 130, 130, 255},
	color.RGBA{230, 159, 0, 255},
}

// room is the share of the x axis after the last point. The legend is there.
const room = 0.36

func (c chart) save(path string) error {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	p := plot.New()
	p.Title.Text, p.X.Label.Text = c.title, c.x
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, c.ticks()
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(oneTwoFive)
	p.Legend.Top, p.Legend.Padding, p.Legend.TextStyle.Font.Size = true, vg.Points(4), vg.Points(9)
	p.Add(plotter.NewGrid())
	for _, s := range c.lines {
		if err := s.addTo(p); err != nil {
			return fmt.Errorf("%s: %w", c.file, err)
		}
	}
	p.X.Max *= math.Pow(p.X.Max/p.X.Min, room/(1-room))
	return p.Save(chartWidth, chartHeight, path)
}

// ticks returns ticks at the measured values of x.
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

// oneTwoFive returns ticks at 1, 2, 5, 10, 20 and so on.
func oneTwoFive(low, high float64) (ticks []plot.Tick) {
	for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
		for _, k := range []float64{1, 2, 5} {
			if x := k * decade; x >= low && x <= high {
				ticks = append(ticks, plot.Tick{Value: x, Label: plain(x)})
			}
		}
	}
	return ticks
}

// plain prints a round number.
func plain(x float64) string {
	if x < 1 {
		return strconv.FormatFloat(x, 'g', 2, 64)
	}
	return thousands(int64(math.Round(x)))
}

func (s series) addTo(p *plot.Plot) error {
	line, points, err := plotter.NewLinePoints(s)
	if err != nil {
		return err
	}
	bars, err := plotter.NewYErrorBars(s)
	if err != nil {
		return err
	}
	i := slices.Index(names(contestants), s.name)
	shade := palette[i%len(palette)]
	line.Color, points.Color, bars.Color = shade, shade, shade
	points.Shape = plotutil.Shape(i)
	line.Width = vg.Points(1)
	if isOurs(s.name) {
		line.Width = vg.Points(2.5)
	}
	p.Add(line, points, bars)
	p.Legend.Add(s.name+"\u00a0\u00a0", line, points) // a gap, because readers may lack the font
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
