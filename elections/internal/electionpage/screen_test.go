package electionpage

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/elections"
	"github.com/coxswain/raft/internal/viewer/browsertest"
)

// chosenInView returns the place where a pane draws the chosen row, if the whole row cannot be seen without scrolling.
const chosenInView = `(pane) => {
	const { canvas, row } = viewerPage.panes[pane];
	canvas.draw();
	const box = canvas.canvas.getBoundingClientRect(), half = (canvas.tops[row + 1] - canvas.tops[row]) / 2;
	const seen = canvas.y(row) - half >= 34 && box.top + canvas.y(row) + half <= innerHeight && canvas.y(row) + half <= canvas.height;
	return seen && !scrollY ? "" : [scrollY, box.top, canvas.y(row), half, canvas.height].join(" ");
}`

func TestPage_TheFirstScreenShowsTheChosenRowOfBothSides(t *testing.T) {
	p := open(t, "", "light")
	p.Resize(1280, 900)
	for i := range stops {
		p.Click(fmt.Sprintf(".tour li:nth-child(%d) a", i+1))
		p.Wait(fmt.Sprintf(`document.querySelector(".tour li:nth-child(%d) a").hasAttribute("aria-current")`, i+1))
		for pane := range 2 {
			assert.Empty(t, browsertest.Eval[string](p, fmt.Sprintf("(%s)(%d)", chosenInView, pane)), "%s, pane %d", stops[i].Title, pane)
		}
	}
}

func TestPage_TheFirstScreenOfAPhoneShowsADiagram(t *testing.T) {
	p := open(t, "", "light")
	p.Resize(390, 844)
	assert.Less(t, browsertest.Eval[float64](p, `document.querySelector(".scroll").getBoundingClientRect().top`), 844.0-120)
}

// cutKeySentences returns the decisions and marks of a pane whose sentences are not drawn in full.
const cutKeySentences = `(pane) => {
	const { canvas, model } = viewerPage.panes[pane];
	canvas.draw();
	const bad = [];
	for (const { index } of model.rows.filter((row) => row.mark || row.step.m)) {
		const text = canvas.sentence(model.rows[index]), room = canvas.textRoom();
		canvas.font(12, "strong");
		const lines = canvas.lines.get(index) || [text];
		const fits = lines.every((line) => canvas.pen.measureText(line).width <= room);
		const height = canvas.tops[index + 1] - canvas.tops[index];
		if (!fits || lines.join(" ") !== text || height < lines.length * 14) bad.push(text);
	}
	return room() ? bad : ["no sentences are drawn"];
	function room() { return canvas.textRoom() > 0; }
}`

func TestPage_KeySentencesAreWrittenInFull(t *testing.T) {
	p := open(t, "", "light")
	p.Resize(1280, 900)
	for i := range stops {
		p.Click(fmt.Sprintf(".tour li:nth-child(%d) a", i+1))
		p.Wait(fmt.Sprintf(`document.querySelector(".tour li:nth-child(%d) a").hasAttribute("aria-current")`, i+1))
		for pane := range 2 {
			assert.Empty(t, browsertest.Eval[[]string](p, fmt.Sprintf("(%s)(%d)", cutKeySentences, pane)), stops[i].Title)
		}
	}
	for range 4 { // larger and smaller rows
		p.Keys("+")
		assert.Empty(t, browsertest.Eval[[]string](p, fmt.Sprintf("(%s)(0)", cutKeySentences)))
	}
}

// A row is found where it is drawn, although not all have one height.
func TestPage_AClickChoosesTheRowThatIsDrawnThere(t *testing.T) {
	p := open(t, "", "light")
	p.Click(".tour li:nth-child(4) a")
	p.Wait(`document.querySelector("#together select").value === "Votes are lost"`)
	const wrong = `(() => {
		const { canvas } = viewerPage.panes[0];
		canvas.draw();
		const view = canvas.visible();
		let several = 0;
		for (let row = view.from + 2; row < view.to; row++) {
			several += canvas.lines.has(row);
			if (canvas.rowOf({ offsetY: canvas.y(row) }) !== row) return "row " + row;
		}
		return several ? "" : "no row has several lines";
	})()`
	assert.Empty(t, browsertest.Eval[string](p, wrong))
}

func TestPage_OpeningAboutMovesBothSides(t *testing.T) {
	p := open(t, "", "light")
	p.Resize(1280, 900)
	tops := `[...document.querySelectorAll(".viewer .run")].map((run) => Math.round(run.getBoundingClientRect().top + scrollY))`
	chooseAlgorithm(p, right, "Raft") // leaves the tour, whose text takes room
	before := browsertest.Eval[[]int](p, tops)
	p.Click(".viewer .about summary")
	p.Wait(`[...document.querySelectorAll(".about")].every((about) => about.open)`)
	p.Wait(fmt.Sprintf(`new Set(%s).size === 1`, tops))
	assert.Greater(t, browsertest.Eval[[]int](p, tops)[0], before[0]+40)
	chooseAlgorithm(p, right, "Ballots, majority")
	p.Wait(fmt.Sprintf(`new Set(%s).size === 1`, tops))
	p.Click(".viewer:nth-of-type(2) .about summary")
	p.Wait(`[...document.querySelectorAll(".about")].every((about) => !about.open)`)
	assert.Equal(t, before, browsertest.Eval[[]int](p, tops))
}

func TestTour_FollowsAChangedLink(t *testing.T) {
	p := open(t, "", "light")
	const current = `[...document.querySelectorAll(".tour a")].findIndex((a) => a.hasAttribute("aria-current")) + 1`
	assert.Equal(t, 1, browsertest.Eval[int](p, current))
	p.Run(`location.hash = document.querySelector(".tour li:nth-child(3) a").hash`)
	p.Wait(current + " === 3")
	assert.Contains(t, p.Text(".told"), "One algorithm, with and without")
	p.Run(`location.hash = "#diagram=40&row=1&diagram2=41"`)
	p.Wait(current + " === 0")
	assert.Empty(t, p.Text(".told"))

	p.Click(".tour li:nth-child(2) a")
	p.Wait(current + " === 2")
	p.Run("document.activeElement.blur()")
	p.Keys(kb.ArrowRight)
	p.Wait(`location.hash.includes("row2=")`)
	again := open(t, browsertest.Eval[string](p, "location.hash"), "light")
	assert.Equal(t, 2, browsertest.Eval[int](again, current), "a link to another row of a stop is to this stop")
}

// crowded returns labels of axes that cover each other.
const crowded = `(() => {
	const bad = [];
	for (const track of document.querySelectorAll(".axis")) {
		const boxes = [...track.querySelectorAll(".tick")].filter((t) => !t.hidden).map((t) => [t.textContent, t.getBoundingClientRect()]);
		boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => { if (p.left < q.right && q.left < p.right) bad.push(a + b); }));
	}
	return bad;
})()`

func TestCharts_LabelsOfAnAxisDoNotCoverEachOther(t *testing.T) {
	p := open(t, "", "light")
	for _, width := range []int64{1280, 390} {
		p.Resize(width, 900)
		for _, s := range elections.Scenarios() {
			choose(p, `document.querySelector(".pick select")`, s.Title)
			assert.Empty(t, browsertest.Eval[[]string](p, crowded), "%s at %d px", s.Title, width)
		}
	}
	require.Positive(t, browsertest.Eval[int](p, `document.querySelectorAll(".tick").length`))
}

func TestCharts_OfZerosHaveAnAxisWithOneLabel(t *testing.T) {
	p := open(t, "", "light")
	choose(p, `document.querySelector(".pick select")`, "One-way link")
	const of = `[...document.querySelectorAll(".card[data-measure=%s] .tick")].map((t) => t.textContent)`
	for _, measure := range []string{"messages", "agreement"} {
		assert.Equal(t, []string{"0"}, browsertest.Eval[[]string](p, fmt.Sprintf(of, measure)), measure)
	}
	assert.Equal(t, []string{"0", "50 %", "100 %"}, browsertest.Eval[[]string](p, fmt.Sprintf(of, "ends")))
}

// The strip has a name for each bar, and times; a click on it goes to the row under the mouse.
func TestStrip_HasNamesTimesAndTheScaleOfTheSlider(t *testing.T) {
	p := open(t, "", "light")
	const ends = `(() => {
		const { overview, model, slider } = viewerPage.panes[0], box = overview.canvas.getBoundingClientRect(), s = slider.getBoundingClientRect();
		const last = model.rows.length - 1;
		return [overview.x(0) - (s.left + 8 - box.left), overview.x(last) - (s.right - 8 - box.left)].map(Math.abs);
	})()`
	for _, off := range browsertest.Eval[[]float64](p, ends) {
		assert.Less(t, off, 1.5, "px between the strip and the slider")
	}
	const inked = `(() => {
		const { overview } = viewerPage.panes[0], { canvas } = overview;
		const pen = canvas.getContext("2d"), ratio = devicePixelRatio;
		const some = (x, y, w, h) => pen.getImageData(x * ratio, y * ratio, w * ratio, h * ratio).data.some((v, i) => i % 4 === 3 && v > 60);
		return [some(0, 0, overview.left - 9, canvas.clientHeight - 15), some(overview.left, canvas.clientHeight - 11, canvas.clientWidth - overview.left, 10)];
	})()`
	assert.Equal(t, []bool{true, true}, browsertest.Eval[[]bool](p, inked), "names, times")
}
