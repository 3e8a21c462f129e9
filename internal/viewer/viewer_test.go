package viewer_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/viewer"
	"github.com/coxswain/raft/internal/viewer/browsertest"
)

func TestMain(m *testing.M) { os.Exit(browsertest.Main(m)) }

const ms = 1_000_000

// rounds returns a diagram of an algorithm other than Raft. Each node asks in turn, and in the end two nodes lead.
func rounds(algorithm, scenario string) viewer.Diagram {
	d := viewer.Diagram{
		Title: algorithm + ", " + scenario, At: []string{algorithm, scenario}, Number: "epoch", Text: "About " + algorithm + ".",
		States: []viewer.State{
			{Name: "ordinary", Letter: "O", Tone: viewer.ToneCalm},
			{Name: "asking", Letter: "A", Tone: viewer.ToneAsk},
			{Name: "leader", Letter: "L", Tone: viewer.ToneLead},
		},
		Marks: []viewer.Mark{{Time: 25 * ms, Until: 45 * ms, Tone: viewer.ToneBad, Lanes: []int{1, 2}, Text: "split brain: 2 and 3 lead"}},
	}
	for i := range 5 {
		d.Lanes = append(d.Lanes, viewer.Lane{Name: fmt.Sprint(i + 1)})
		d.Steps = append(d.Steps, viewer.Step{Time: int64(i) * 10 * ms, Lane: i, State: i % 3, Number: 1, Text: algorithm + " acts", Major: i == 4})
	}
	d.Messages = []viewer.Message{{From: 0, To: 3, Sent: 0, Step: 4, Kind: "ELECT"}, {From: 0, To: 4, Sent: 0, Kind: "ELECT"}}
	return d
}

func page() viewer.Page {
	p := viewer.Page{Title: "Elections <beside> each other", Axes: []string{"algorithm", "scenario"}, Panes: 2}
	for _, algorithm := range []string{"bully", "ring"} {
		for _, scenario := range []string{"crash", "partition"} {
			p.Diagrams = append(p.Diagrams, rounds(algorithm, scenario))
		}
	}
	return p
}

func TestWrite_NeedsNothingFromElsewhere(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, viewer.Write(&out, page()))
	assert.Contains(t, out.String(), "<title>Elections &lt;beside&gt; each other</title>")
	assert.Empty(t, regexp.MustCompile(`(?:src|href)="(?:[^"d]|d[^"a])|url\(|@import|https?://|\bfetch\(`).FindAllString(out.String(), -1))
}

func openPage(t *testing.T, fragment string) *browsertest.Page {
	t.Helper()
	return browsertest.Open(t, func(f *os.File) error { return viewer.Write(f, page()) }, fragment, "light")
}

func pane(p *browsertest.Page, number int, what string) string {
	return browsertest.Eval[string](p, fmt.Sprintf("document.querySelectorAll('.viewer')[%d]%s", number-1, what))
}

func TestPanes_AreChosenAndSteppedOnTheirOwn(t *testing.T) {
	p := openPage(t, "")
	story, row := ".querySelector('.story').textContent", ".dataset.row"
	assert.Equal(t, "About bully.", pane(p, 1, story))
	p.Run(`const s = document.querySelectorAll(".viewer")[1].querySelector("select"); s.selectedIndex = 1; s.dispatchEvent(new Event("change"))`)
	assert.Equal(t, "About ring.", pane(p, 2, story))
	assert.Equal(t, "partition", pane(p, 2, ".querySelectorAll('select')[1].value"), "the other choice stays")

	p.Keys(kb.Home)
	before := pane(p, 2, row)
	p.Keys(kb.ArrowRight)
	assert.Equal(t, "1", pane(p, 1, row))
	assert.Equal(t, before, pane(p, 2, row))
	p.Click(".viewer:nth-of-type(2) [data-go=first]")
	p.Run(`document.activeElement.blur()`)
	p.Keys(kb.ArrowRight + kb.ArrowRight)
	assert.Equal(t, "2", pane(p, 2, row))
	p.Wait(`location.hash === "#diagram=1&row=2&diagram2=4&row2=3"`)
}

func TestPanes_FollowTheLink(t *testing.T) {
	p := openPage(t, "#diagram=3&row=2&diagram2=2&row2=1")
	assert.Equal(t, "ring", pane(p, 1, ".querySelector('select').value"))
	assert.Equal(t, "1", pane(p, 1, ".dataset.row"))
	assert.Equal(t, "0", pane(p, 2, ".dataset.row"))
}

func TestRow_IsWhereTheViewerShowsAMark(t *testing.T) {
	d := rounds("bully", "crash")
	d.Marks = []viewer.Mark{
		{Time: 10 * ms, Tone: viewer.ToneWarn, Text: "a fault"}, {Time: 10 * ms, Tone: viewer.ToneBad, Text: "two lead"},
		{Time: 90 * ms, Tone: viewer.ToneInfo, Text: "the end"},
	}
	p := browsertest.Open(t, func(f *os.File) error {
		return viewer.Write(f, viewer.Page{Title: "One", Diagrams: []viewer.Diagram{d}})
	}, "", "light")
	for i := range d.Marks {
		row := browsertest.Eval[int](p, fmt.Sprintf("viewerPage.panes[0].model.rows.findIndex((r) => r.mark && r.mark.x === %q) + 1", d.Marks[i].Text))
		assert.Equal(t, row, d.Row(i), d.Marks[i].Text)
	}
}

func TestShared_HoldsAllPanesAtOnePlaceAndMovesThemTogether(t *testing.T) {
	shared := page()
	shared.Shared, shared.Start = "scenario", "diagram=2&row=1&diagram2=3"
	shared.Lead, shared.Body = "<p id=before>first</p>", "<p id=after>last</p>"
	shared.About = map[string][]viewer.Fact{"ring": {{Name: "Source", Text: "a <paper>"}}}
	p := browsertest.Open(t, func(f *os.File) error { return viewer.Write(f, shared) }, "", "light")
	place := "document.querySelector('#together select')"
	assert.Equal(t, "partition", browsertest.Eval[string](p, place+".value"))
	assert.Equal(t, "About ring.", pane(p, 2, ".querySelector('.story').textContent"))
	assert.Contains(t, pane(p, 2, ".querySelector('.about').textContent"), "a <paper>")
	assert.Equal(t, "1", browsertest.Eval[string](p, "String(document.querySelectorAll('.viewer')[1].querySelectorAll('select').length)"))

	p.Keys(kb.End)
	assert.Equal(t, pane(p, 1, ".dataset.row"), pane(p, 2, ".dataset.row"))
	p.Run("const s = " + place + `; s.selectedIndex = 0; s.dispatchEvent(new Event("change"))`)
	at := browsertest.Eval[[]string](p, "viewerPage.chosen.map((d) => viewerPage.diagrams[d].at.join())")
	assert.Equal(t, []string{"bully,crash", "ring,crash"}, at)
	assert.True(t, browsertest.Eval[bool](p, "before.getBoundingClientRect().top < after.getBoundingClientRect().top"))
}

func TestStart_SaysHowANodeIsBeforeItsFirstStep(t *testing.T) {
	d := rounds("bully", "crash")
	d.Start = []viewer.Step{{Lane: 4, State: 2, Number: 7}}
	p := browsertest.Open(t, func(f *os.File) error {
		return viewer.Write(f, viewer.Page{Title: "One", Diagrams: []viewer.Diagram{d}})
	}, "", "light")
	p.Keys(kb.Home)
	assert.Contains(t, p.Text(".node:nth-child(5)"), "leader · epoch 7")
	assert.Contains(t, p.Text(".node:nth-child(4)"), "not started yet")
}

func TestDiagram_ShowsSplitBrainAndTheRuleThatActs(t *testing.T) {
	p := openPage(t, "")
	assert.Contains(t, p.Text(".sentence"), "split brain: 2 and 3 lead", "the page begins at the failure")
	p.Keys(kb.Home)
	assert.Contains(t, p.Text(".sentence"), "bully acts")
	assert.Contains(t, p.Text(".now"), "ordinary · epoch 1")
	assert.Contains(t, p.Text(".now"), "never received", "a message is lost")
	assert.Contains(t, p.Text(".nodes"), "not started yet")
	tinted := browsertest.Eval[bool](p, `(() => {
		const view = window.viewerPage.panes[0].canvas;
		view.draw();
		const at = (lane) => view.pen.getImageData((view.x(lane) - view.laneWidth / 2 + 3) * devicePixelRatio, view.y(4) * devicePixelRatio, 1, 1).data;
		return at(1)[1] < 240 && at(1)[0] > at(1)[1] && at(0)[0] === 255 && at(0)[1] === 255;
	})()`)
	assert.True(t, tinted, "the lanes of the two leaders are red for as long as both lead, and no other")
}

func TestKeys_AreTheDiagramsAsSoonAsTheHelpIsClosed(t *testing.T) {
	p := openPage(t, "")
	p.Keys("?")
	p.Run(`const help = document.getElementById("helptext"), button = help.querySelector("button");
		help.close();
		button.dispatchEvent(new KeyboardEvent("keydown", { key: " ", bubbles: true }))`)
	assert.Contains(t, p.Text(".play"), "Pause", "a button of the closed help gets no keys")
}
