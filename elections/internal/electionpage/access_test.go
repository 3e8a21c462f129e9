package electionpage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/elections"
	"github.com/coxswain/raft/internal/sim"
	"github.com/coxswain/raft/internal/viewer"
	"github.com/coxswain/raft/internal/viewer/browsertest"
)

// contrasts finds elements and texts with a contrast below 4.5 to 1, and lines of the canvas with a contrast below 3 to 1. It
// compares an element with the background behind it, and a text of the canvas with the canvas's own colours.
const contrasts = `(() => {
	const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
	const over = (colors) => {
		pen.clearRect(0, 0, 1, 1);
		for (const color of colors) { pen.fillStyle = color; pen.fillRect(0, 0, 1, 1); }
		return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
	};
	const light = (rgb) => rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const ratio = (text, ...behind) => {
		const [low, high] = [light(over([...behind, text])), light(over(behind))].sort((a, b) => a - b);
		return (high + 0.05) / (low + 0.05);
	};
	const behind = (e) => (e ? [...behind(e.parentElement), getComputedStyle(e).backgroundColor] : ["white"]);
	const poor = [];
	const check = (name, r) => { if (r < 4.5) poor.push(name + " " + r.toFixed(2)); };
	const checkLine = (name, r) => { if (r < 3) poor.push(name + " " + r.toFixed(2)); };
	let seen = 0;
	for (const e of document.querySelectorAll("body *")) {
		const written = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) && !e.matches("script, style, option, noscript");
		if (!written || !e.getClientRects().length) continue;
		seen++;
		check(e.tagName + "." + e.className + ": " + e.textContent.trim().slice(0, 30), ratio(getComputedStyle(e).color, ...behind(e)));
	}
	const { look } = viewerPage.panes[0].canvas;
	for (const name of ["ink", "faint", "infoInk", "warnInk", "badInk", "bad"]) {
		for (const under of ["paper", "chosen"]) check("canvas: " + name + " on " + under, ratio(look[name], look[under]));
	}
	for (const tone of ["calm", "ask", "lead", "down"]) check("canvas: badge " + tone, ratio(look.onTone, look[tone]));
	const line = (color, share) => "color-mix(in srgb, " + color + " " + share + "%, transparent)";
	for (const color of [...look.terms, ...["calm", "ask", "lead", "warn", "info", "bad"].map((tone) => look[tone])]) {
		checkLine("canvas: line " + color, ratio(color, look.paper));
	}
	checkLine("canvas: arrow", ratio(line(look.message, 75), look.paper));
	checkLine("canvas: arrow that is lost", ratio(line(look.bad, 70), look.paper));
	return seen < 300 ? ["only " + seen + " elements were seen"] : [...new Set(poor)];
})()`

func TestPage_IsWrittenWithContrastInBothThemes(t *testing.T) {
	for _, scheme := range []string{"light", "dark"} {
		p := open(t, "", scheme)
		chooseScenario(p, "Restart storm")
		p.Run(`document.querySelectorAll("details").forEach((d) => (d.open = true))`)
		for _, key := range []string{kb.Home, "f", kb.ArrowRight} {
			p.Keys(key)
			p.Run(`viewerPage.panes[0].canvas.draw()`)
			assert.Empty(t, browsertest.Eval[[]string](p, contrasts), scheme)
		}
		p.Keys("?")
		assert.Empty(t, browsertest.Eval[[]string](p, contrasts), scheme)
	}
}

func TestPage_EveryControlIsReachedByTabHasANameAndShowsItsFocus(t *testing.T) {
	p := open(t, "", "light")
	const focused = `(() => {
		const e = document.activeElement, style = getComputedStyle(e);
		if (e === document.body) return "";
		const name = e.getAttribute("aria-label") || [...(e.labels || [])].map((l) => l.textContent).join() || e.textContent;
		const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
		const box = e.getBoundingClientRect();
		return [e.tagName, e.dataset.go || e.id || e.className, /[A-Za-z]{3}/.test(name) ? "named" : "NAMELESS", ring ? "ring" : "NO RING",
			box.width > 0 && box.height > 0 ? "" : "INVISIBLE"].join(" ");
	})()`
	var all []string
	for range 150 {
		p.Keys(kb.Tab)
		now := browsertest.Eval[string](p, focused)
		if now == "" && len(all) > 0 {
			break // beyond the last
		}
		if now != "" {
			all = append(all, now)
		}
	}
	for _, control := range all {
		assert.NotRegexp(t, "NAMELESS|NO RING|INVISIBLE", control)
	}
	told := strings.Join(all, "\n")
	for _, control := range []string{"BUTTON theme", "BUTTON help", "BUTTON stopOn", "BUTTON play", "INPUT slider", "INPUT find"} {
		assert.Contains(t, told, control)
	}
	assert.Equal(t, len(stops), strings.Count(told, "A  "), "the stops of the tour")
	assert.Equal(t, 5, strings.Count(told, "SELECT"), told)
}

func TestPage_KeysMoveTheOtherSideAfterO(t *testing.T) {
	p := open(t, "", "light")
	p.Click("#together input") // each on its own
	p.Run("document.activeElement.blur()")
	const row, active = "Number(pane.dataset.row)", `pane.classList.contains("active")`
	before := [2]int{in[int](p, left, row), in[int](p, right, row)}
	p.Keys("o" + kb.ArrowRight + kb.ArrowRight)
	assert.Equal(t, before[left], in[int](p, left, row))
	assert.Equal(t, before[right]+2, in[int](p, right, row))
	assert.Equal(t, [2]bool{false, true}, [2]bool{in[bool](p, left, active), in[bool](p, right, active)})
	p.Keys("o")
	assert.True(t, in[bool](p, left, active))
	p.Keys("?")
	assert.Contains(t, p.Text("#helptext"), "the keys control the other side")
}

func TestPage_FilterGoesOnWithEnter(t *testing.T) {
	p := open(t, "", "light")
	p.Keys("/")
	p.Run(`document.activeElement.value = ""`) // an imitated key writes itself though the page took it
	p.Keys("announces itself")
	found := in[int](p, left, `parseInt(pane.querySelector(".count").innerText)`)
	require.Greater(t, found, 1)
	first := ""
	for i := range found + 1 {
		p.Keys(kb.Enter)
		said := sentenceOf(p, left) + in[string](p, left, "pane.dataset.row")
		assert.Contains(t, said, "A leader announces itself")
		if i == 0 {
			first = said
		}
		assert.Equal(t, i == 0 || i == found, said == first, "the last is followed by the first")
	}
}

// A red band is also described in words, with the members that led.
func TestPage_SaysSplitBrainInWords(t *testing.T) {
	compared(t)
	drawn, err := allDrawn()
	require.NoError(t, err)
	bad := 0
	for i := range drawn {
		for _, m := range drawn[i].Marks {
			if m.Tone != viewer.ToneBad {
				continue
			}
			bad++
			assert.Regexp(t, `^((Split brain for|Overlap of) [0-9.]+ m?s|(Split brain|Overlap) goes on): `, m.Text)
			for _, lane := range m.Lanes {
				assert.Regexp(t, fmt.Sprintf(`[ ,]%d\b.*lead`, lane+1), m.Text)
			}
			assert.Equal(t, hasTerms(drawn[i].At[0]), strings.Contains(m.Text, "term"), "%s: %s", drawn[i].Title, m.Text)
		}
	}
	require.Greater(t, bad, 100)
}

// hasTerms reports whether the algorithm of this title numbers its leaders.
func hasTerms(title string) bool {
	return slices.ContainsFunc(elections.Algorithms(), func(a *elections.Algorithm) bool { return a.Title == title && a.Epochs })
}

func TestSplits_WithoutAPauseAreOneSplitBrain(t *testing.T) {
	leads := func(at sim.Time, member, leader elections.Rank) *act {
		return &act{Record: elections.Record{At: at, Member: member}, leader: leader}
	}
	const ms = sim.Time(1_000_000)
	told := &story{n: 3, end: 900 * ms, acts: []*act{
		leads(0, 1, 1), leads(10*ms, 2, 2), leads(40*ms, 3, 3), leads(110*ms, 1, 2), leads(111*ms, 2, 3), // 100 ms in all
		leads(200*ms, 1, 1), leads(205*ms, 1, 3),
	}}
	a, _ := lookUp(t, "bully-a", "minority")
	var said []string
	for _, m := range told.splits(a, 50*ms) {
		said = append(said, m.Text)
	}
	assert.Equal(t, []string{
		"Split brain for 101 ms: first 1 and 2 lead.", "Split brain goes on: 1, 2 and 3 lead.", "Split brain goes on: 2 and 3 lead.",
		"Overlap of 5.0 ms: 1 and 3 lead.",
	}, said)
}

func TestTour_ShowsTwoLeadersOfOneTermBesideRaftOnTheSameFaults(t *testing.T) {
	p := open(t, "", "light")
	stop := 0
	for i, s := range stops {
		if s.scenario == "lost-votes" {
			stop = i + 1
		}
	}
	p.Click(fmt.Sprintf(".tour li:nth-child(%d) a", stop))
	p.Wait(`document.querySelector("#together select").value === "Votes are lost"`)
	assert.Contains(t, sentenceOf(p, left), "1 and 2 lead, both in term 1.")
	assert.True(t, in[bool](p, left, `pane.querySelector(".sentence").classList.contains("bad")`))
	assert.Equal(t, "Raft", in[string](p, right, `pane.querySelector("select").value`))
	assert.Zero(t, bands(p, right))
	seed := `pane.querySelector(".story").innerText`
	assert.Equal(t, in[string](p, left, seed), in[string](p, right, seed), "the same faults")
	p.Run("document.activeElement.blur()")
	p.ShiftKeys(kb.ArrowLeft)
	assert.Contains(t, sentenceOf(p, left), "More than half voted alike for me: I lead the next term.")
}

func TestPage_FitsANarrowWindow(t *testing.T) {
	p := open(t, "", "light")
	p.Resize(390, 844)
	for _, scenario := range []string{"Votes are lost", "Majority/minority partition", "20 % loss"} {
		chooseScenario(p, scenario)
		assert.LessOrEqual(t, browsertest.Eval[int](p, "document.documentElement.scrollWidth"), 390, scenario)
	}
	const roomForTimes = `(() => {
		const view = viewerPage.panes[0].canvas;
		view.draw();
		view.font(11, "mono");
		return view.gutter - 16 - view.pen.measureText("-9,999.9 ms").width;
	})()`
	assert.Positive(t, browsertest.Eval[float64](p, roomForTimes), "no digit is cut")
	const crossed = `[...document.querySelectorAll(".cards .line[data-algorithm]")].filter((line) => {
		const [name, track] = line.children, value = line.querySelector(".value");
		return track.clientWidth < 250 || name.getBoundingClientRect().right > value.getBoundingClientRect().left
			|| name.getBoundingClientRect().bottom > track.getBoundingClientRect().top + 1;
	}).length`
	assert.Zero(t, browsertest.Eval[int](p, crossed), "a track has the whole width, below its name and numbers")
}
