package failover

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The measures of a picture, in pixels. Each kind has a panel.
const (
	pictureWidth = 720
	panelHeight  = 150
	plotLeft     = 60
	plotWidth    = 620
	plotTop      = 34
	plotHeight   = 80
)

// The colours of the two curves, which colour-blind readers can distinguish (Okabe and Ito).
const (
	colourOn  = "#d55e00"
	colourOff = "#0072b2"
)

// SVG returns a picture: for each kind, the share of the trials that ended within a time, with the preferences on and off. The
// scale of the time is logarithmic, and the same for all kinds.
func (r Report) SVG() string {
	low, high := math.Inf(1), 0.0
	var kinds []*Result
	for i := range r.Results {
		k := &r.Results[i]
		if k.On.Count == 0 || k.Off.Count == 0 {
			continue
		}
		kinds = append(kinds, k)
		low = min(low, k.On.Curve[0], k.Off.Curve[0])
		high = max(high, k.On.Max, k.Off.Max)
	}
	s := newTimeScale(low, high)
	var b strings.Builder
	height := max(len(kinds), 1) * panelHeight
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" `+
		`font-family="sans-serif" font-size="12"><title>The share of the trials that ended within a time</title>`+"\n",
		pictureWidth, height, pictureWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", pictureWidth, height)
	for i, k := range kinds {
		fmt.Fprintf(&b, `<g transform="translate(%d,%d)">`+"\n", plotLeft, i*panelHeight+plotTop)
		k.panel(&b, s)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// panel draws one kind.
func (k *Result) panel(b *strings.Builder, s timeScale) {
	fmt.Fprintf(b, `<text y="-10" font-weight="bold">%s</text>`, html.EscapeString(k.Kind))
	fmt.Fprintf(b, `<text x="%d" y="-10" text-anchor="end"><tspan fill="%s">preferences on: median %.1f ms</tspan>`+
		`<tspan dx="16" fill="%s">off: %.1f ms</tspan></text>`+"\n", plotWidth, colourOn, k.On.Median, colourOff, k.Off.Median)
	for _, share := range []int{0, 50, 100} {
		y := yOf(float64(share) / 100)
		fmt.Fprintf(b, `<path d="M0 %.1fH%d" stroke="#dddddd"/><text x="-6" y="%.1f" text-anchor="end">%d %%</text>`+"\n",
			y, plotWidth, y+4, share)
	}
	for _, t := range s.ticks() {
		x := s.x(t)
		fmt.Fprintf(b, `<path d="M%.1f 0V%d" stroke="#dddddd"/><text x="%.1f" y="%d" text-anchor="middle">%g ms</text>`+"\n",
			x, plotHeight, x, plotHeight+16, t)
	}
	for _, c := range []struct {
		curve  []float64
		colour string
		width  int
	}{{k.Off.Curve, colourOff, 4}, {k.On.Curve, colourOn, 2}} { // both show if they are equal
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="%d"/>`+"\n", s.steps(c.curve), c.colour, c.width)
	}
}

func yOf(share float64) float64 { return plotHeight * (1 - share) }

// timeScale maps times in milliseconds to pixels.
type timeScale struct{ low, high float64 }

func newTimeScale(low, high float64) timeScale {
	low = max(min(low, high), 0.1)
	return timeScale{low / 1.1, max(high, 2*low) * 1.1}
}

func (s timeScale) x(ms float64) float64 {
	return plotWidth * math.Log(max(ms, s.low)/s.low) / math.Log(s.high/s.low)
}

// ticks returns 1, 2, 5, 10, 20 and so on.
func (s timeScale) ticks() (ticks []float64) {
	for decade := math.Pow(10, math.Floor(math.Log10(s.low))); decade <= s.high; decade *= 10 {
		for _, k := range []float64{1, 2, 5} {
			if t := k * decade; t >= s.low && t <= s.high {
				ticks = append(ticks, t)
			}
		}
	}
	return ticks
}

// steps returns the path of a curve, whose points are evenly spaced shares.
func (s timeScale) steps(curve []float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "M%.1f %.1f", s.x(curve[0]), yOf(0))
	for i, ms := range curve {
		fmt.Fprintf(&b, "H%.1fV%.1f", s.x(ms), yOf(float64(i+1)/float64(len(curve))))
	}
	return b.String()
}
