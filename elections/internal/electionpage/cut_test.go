package electionpage

import (
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/viewer/browsertest"
)

// stopsAlone returns the number of stops of the tour that are alone in a row. In a narrow window, it counts a stop only if
// the stop does not fill its row.
const stopsAlone = `(() => {
	const rows = new Map();
	for (const stop of document.querySelectorAll(".tour li")) {
		const box = stop.getBoundingClientRect();
		rows.set(box.top, [...(rows.get(box.top) || []), box.width]);
	}
	const width = document.querySelector(".tour").clientWidth;
	return [...rows.values()].filter((row) => row.length === 1 && (innerWidth > 560 || row[0] < width - 1)).length;
})()`

func TestTour_NoStopIsAloneInItsRow(t *testing.T) {
	p := open(t, "", "light")
	for _, width := range []int64{1400, 1000, 390} {
		p.Resize(width, 900)
		assert.Zero(t, browsertest.Eval[int](p, stopsAlone), "at %d px", width)
		for _, stops := range []int{5, 7, 8, 9} {
			p.Run(`const tour = document.querySelector(".tour"); window.all = window.all || [...tour.children];
				const some = [...window.all, ...window.all.map((stop) => stop.cloneNode(true))];
				tour.replaceChildren(...some.slice(0, ` + string(rune('0'+stops)) + `))`)
			assert.Zero(t, browsertest.Eval[int](p, stopsAlone), "%d stops at %d px", stops, width)
		}
		p.Run(`document.querySelector(".tour").replaceChildren(...window.all)`)
	}
}

// unreadable points at each sentence in view for which the diagram has no room. It returns the sentences that the tip does
// not show in full, or not in a visible place.
const unreadable = `(pane) => {
	const { canvas, model } = viewerPage.panes[pane];
	canvas.draw();
	const bad = [];
	for (const row of canvas.cut) {
		const { step, mark } = model.rows[row];
		const y = canvas.y(row);
		if (y < 40 || y > canvas.height - 1) continue;
		canvas.hover({ offsetX: canvas.textX + 30, offsetY: y });
		const tip = canvas.tip.getBoundingClientRect(), view = canvas.scroll.getBoundingClientRect();
		const seen = !canvas.tip.hidden && tip.top >= view.top && tip.bottom <= view.bottom && tip.left >= view.left && tip.right <= view.right;
		if (!seen || !canvas.tip.innerText.includes(mark ? mark.x : step.x)) bad.push(mark ? mark.x : step.x);
	}
	return [bad, canvas.cut.size];
}`

// If a sentence has no room, the tip shows it in full when the mouse points at it. The panel shows it in full when the
// keyboard selects it.
func TestPage_NoSentenceIsCutWithoutAWayToReadIt(t *testing.T) {
	p := open(t, "", "light")
	cut := 0
	for _, width := range []int64{1400, 1100} {
		p.Resize(width, 900)
		for _, scenario := range []string{"Majority/minority partition", "20 % loss"} {
			chooseScenario(p, scenario)
			for range 4 {
				for pane := range 2 {
					assert.Empty(t, in[[]string](p, pane, `(`+unreadable+`)([...document.querySelectorAll(".viewer")].indexOf(pane))[0]`), scenario)
					cut += in[int](p, pane, `(`+unreadable+`)([...document.querySelectorAll(".viewer")].indexOf(pane))[1]`)
				}
				p.Keys(kb.PageDown)
			}
		}
	}
	require.Positive(t, cut, "nothing was cut: the test shows nothing")
	const whole = `(() => {
		const { model, row } = viewerPage.panes[0], { step, mark } = model.rows[row];
		const now = document.querySelector(".viewer .now"), sentence = now.querySelector(".sentence");
		return sentence.innerText.endsWith(mark ? mark.x : step.x) && sentence.scrollWidth <= sentence.clientWidth
			&& sentence.getBoundingClientRect().bottom <= now.getBoundingClientRect().bottom;
	})()`
	for _, width := range []int64{1400, 390} {
		p.Resize(width, 844)
		p.Keys(kb.Home)
		for range 30 {
			require.True(t, browsertest.Eval[bool](p, whole), "at %d px: %s", width, sentenceOf(p, left))
			p.Keys(kb.ArrowRight)
		}
	}
}

// What the style shortens to a line has a title that says it in full.
func TestPage_WhatIsShortenedHasATitle(t *testing.T) {
	p := open(t, "", "light")
	for _, width := range []int64{1400, 390} {
		p.Resize(width, 900)
		chooseScenario(p, "20 % loss")
		for range 12 {
			assert.Empty(t, browsertest.Eval[[]string](p, `[...document.querySelectorAll("body *")].filter((e) =>
				getComputedStyle(e).textOverflow === "ellipsis" && e.scrollWidth > e.clientWidth && !e.closest("[title]")?.title.includes(e.textContent))
				.map((e) => e.className + ": " + e.textContent)`))
			p.Keys(kb.ArrowRight)
		}
	}
}
