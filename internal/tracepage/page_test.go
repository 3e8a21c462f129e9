package tracepage_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/internal/tracepage"
	"github.com/coxswain/raft/internal/viewer/browsertest"
)

func TestMain(m *testing.M) { os.Exit(browsertest.Main(m)) }

// traced returns the trace of a seed, and its records.
func traced(t *testing.T, seed string) (string, []fuzzy.Record) {
	t.Helper()
	parsed, err := fuzzy.ParseSeed(seed)
	require.NoError(t, err)
	var lines bytes.Buffer
	var records []fuzzy.Record
	write := fuzzy.NDJSON(&lines)
	_, err = fuzzy.Run(parsed, func(r *fuzzy.Record) {
		write(r)
		records = append(records, *r)
	})
	require.NoError(t, err)
	return lines.String(), records
}

func open(t *testing.T, fragment, scheme string, files ...*tracepage.File) *browsertest.Page {
	t.Helper()
	return browsertest.Open(t, func(f *os.File) error { return tracepage.Write(f, "A trace", files...) }, fragment, scheme)
}

// row returns the number of the chosen row, from 1.
func row(p *browsertest.Page) int {
	return browsertest.Eval[int](p, `Number(document.querySelector(".viewer").dataset.row) + 1`)
}

// drawn returns the steps and marks of a trace as the page numbers them, from 1. Messages have no row.
func drawn(records []fuzzy.Record) []*fuzzy.Record {
	rows := []*fuzzy.Record{nil}
	for i := range records {
		switch records[i].Kind {
		case "start", "step", "crash", "fault", "heal", "failure":
			rows = append(rows, &records[i])
		}
	}
	return rows
}

// quiet returns the row of a late step with a log. No other row has the same time.
func quiet(t *testing.T, rows []*fuzzy.Record) int {
	t.Helper()
	for i := len(rows) / 2; i < len(rows)-1; i++ {
		alone := rows[i-1].Time < rows[i].Time && rows[i].Time < rows[i+1].Time
		if alone && rows[i].Kind == "step" && rows[i].Commit > 1 && rows[i].Last[0] > uint64(rows[i].Commit) {
			return i
		}
	}
	t.Fatal("the seed has no such step")
	return 0
}

func TestPage_ShowsWhatTheTraceSaysAtARow(t *testing.T) {
	text, records := traced(t, "f10.history.7")
	rows := drawn(records)
	at := quiet(t, rows)
	step := rows[at]
	p := open(t, fmt.Sprintf("#row=%d", at), "light", &tracepage.File{Name: "seed", Text: text})
	assert.Contains(t, p.Text(".place"), fmt.Sprintf("Row %d of %d", at, len(rows)-1))
	card := p.Text(".node.here")
	for _, want := range []string{
		step.Node, step.Role, fmt.Sprintf("term %d", step.Term), "leader " + step.Leader,
		fmt.Sprintf("last %d@%d", step.Last[0], step.Last[1]), fmt.Sprintf("persisted %d", step.Persisted),
		fmt.Sprintf("commit %d", step.Commit), fmt.Sprintf("applied %d", step.Applied),
	} {
		assert.Contains(t, card, want)
	}
	entries := browsertest.Eval[int](p, `document.querySelectorAll(".node.here .cell:not(.absent)").length`)
	assert.EqualValues(t, step.Last[0], entries, "the whole log of a short run is in view")
	committed := browsertest.Eval[int](p, `document.querySelectorAll(".node.here .cell.committed").length`)
	assert.EqualValues(t, step.Commit, committed)
	last := browsertest.Eval[string](p, `[...document.querySelectorAll(".node.here .cell:not(.absent)")].pop().innerText`)
	assert.Equal(t, fmt.Sprint(step.Last[1]), last, "a cell shows the entry's term")
}

// Each log on the page ends at the index and term in the trace, at each row.
func TestPage_FollowsEveryLog(t *testing.T) {
	text, records := traced(t, "f10.alone.18")
	p := open(t, "", "light", &tracepage.File{Name: "seed", Text: text})
	ends := browsertest.Eval[[][4]uint64](p, `window.viewerPage.panes[0].model.steps.filter((s) => s.s !== 4).map((s) =>
		[s.log.last, s.log.runs.at(-1)?.t ?? 0, s.log.committed, s.log.durable])`)
	i := 0
	for _, r := range records {
		if r.Kind != "start" && r.Kind != "step" {
			continue
		}
		require.Less(t, i, len(ends))
		require.Equal(t, [4]uint64{r.Last[0], r.Last[1], uint64(r.Commit), uint64(r.Persisted)}, ends[i], "line %d", r.Seq)
		i++
	}
	assert.Len(t, ends, i)
}

func TestPage_IsSteppedByKeysAndSlider(t *testing.T) {
	text, records := traced(t, "f10.history.7")
	last := len(drawn(records)) - 1
	p := open(t, "", "light", &tracepage.File{Name: "seed", Text: text})
	require.Equal(t, 1, row(p))
	p.Keys(kb.ArrowRight + kb.ArrowRight)
	assert.Equal(t, 3, row(p))
	p.Keys(kb.ArrowLeft)
	assert.Equal(t, 2, row(p))
	assert.Equal(t, "1", browsertest.Eval[string](p, `document.querySelector(".slider").value`))
	p.Keys(kb.End)
	assert.Equal(t, last, row(p))
	p.Keys(kb.Home)
	p.ShiftKeys(kb.ArrowRight)
	stop := row(p)
	assert.Greater(t, stop, 1)
	decided := browsertest.Eval[bool](p, `!!document.querySelector(".decision.chosen")`)
	assert.True(t, decided, "a jump ends at a decision")
	p.ShiftKeys(kb.ArrowLeft)
	assert.Equal(t, 1, row(p))
	p.Run(`const s = document.querySelector(".slider"); s.value = 99; s.dispatchEvent(new Event("input"))`)
	assert.Equal(t, 100, row(p))
	p.Wait(`location.hash === "#row=100"`)
	p.Run(`location.hash = "#row=50"`)
	p.Wait(`document.querySelector(".viewer").dataset.row === "49"`)
	p.Keys("?")
	assert.True(t, browsertest.Eval[bool](p, `document.getElementById("helptext").open`))
	p.Keys(kb.Escape)
	p.Wait(`!document.getElementById("helptext").open`)
	p.Keys(" ")
	p.Wait(`Number(document.querySelector(".viewer").dataset.row) > 51`)
}

func TestPage_SaysWhatItLeavesOut(t *testing.T) {
	var text strings.Builder
	text.WriteString(`{"kind":"begin","format":1,"nodes":["a"]}` + "\n" +
		`{"kind":"start","node":"a","role":"follower","last":[0,0],"log":{"after":0}}` + "\n" +
		`{"kind":"step","node":"a","role":"follower","last":[7,3],"log":{"after":0,"runs":[{"term":3,"count":7}]}}` + "\n")
	for i := range 60_000 {
		fmt.Fprintf(&text, `{"kind":"step","time":%d,"node":"a","role":"follower","term":3,"last":[7,3],"commit":2}`+"\n", 1000*i)
	}
	text.WriteString(`{"kind":"end"}` + "\n")
	p := open(t, "", "light", &tracepage.File{Name: "long", Text: text.String()})
	assert.Contains(t, p.Text(".warning"), "The trace has 60,004 lines. The page draws the last 60,000")
	assert.Equal(t, 7, browsertest.Eval[int](p, `document.querySelectorAll(".cell:not(.absent)").length - 3`),
		"the log is whole, though its beginning is left out; three cells are the legend's")
	p.Keys(kb.End)
	assert.Contains(t, p.Text(".place"), "Row 59,999 of 59,999")
}

func TestPage_FiltersDecisions(t *testing.T) {
	text, records := traced(t, "f10.history.7")
	p := open(t, "", "light", &tracepage.File{Name: "seed", Text: text})
	p.Keys("/")
	require.Equal(t, "find", browsertest.Eval[string](p, `document.activeElement.className`))
	p.Run(`document.activeElement.value = ""`) // the page uses this key, so it should type nothing, but in a headless browser it does
	p.Keys("lead term")
	want := 0
	for _, r := range records {
		said := strings.ToLower(strings.Join(r.Trace, "; "))
		if strings.Contains(said, "lead") && strings.Contains(said, "term") {
			want++
		}
	}
	require.Positive(t, want)
	assert.Contains(t, p.Text(".count"), fmt.Sprintf("%d of ", want))
	p.Click(".decision")
	assert.Contains(t, p.Text(".sentence"), "lead term")
}

func TestPage_BeginsAtAFailure(t *testing.T) {
	text, records := traced(t, "f10.alone.3")
	lines := strings.SplitAfter(strings.TrimSpace(text), "\n")
	cut := 0
	for i := range records {
		if r := &records[i]; r.Cut != nil && len(*r.Cut) > 0 {
			cut = i
		}
	}
	require.Positive(t, cut, "the seed cuts links")
	broken, err := json.Marshal(fuzzy.Record{Seq: records[cut].Seq + 1, Time: records[cut].Time, Kind: "failure", Text: "safety: G1: two leaders"})
	require.NoError(t, err)
	text = strings.Join(lines[:cut+1], "") + string(broken) + "\n" + `{"kind":"end"}` + "\n"
	p := open(t, "", "light", &tracepage.File{Name: "seed", Text: text})
	assert.Contains(t, p.Text(".sentence"), "safety: G1: two leaders")
	assert.Contains(t, p.Text(".cut"), "cut links: ")
	p.Keys(kb.Home)
	p.Keys("f")
	assert.Contains(t, p.Text(".sentence"), "safety: G1: two leaders")
	red := browsertest.Eval[int](p, countPixels("--bad"))
	assert.Greater(t, red, 200, "a line across all lanes")
}

// countPixels counts the pixels of the diagram that have a colour of the theme.
func countPixels(name string) string {
	return `(() => {
		const view = window.viewerPage.panes[0].canvas;
		view.draw();
		const want = getComputedStyle(document.documentElement).getPropertyValue("` + name + `").trim();
		const [r, g, b] = [1, 3, 5].map((i) => parseInt(want.slice(i, i + 2), 16));
		const { data } = view.pen.getImageData(0, 0, view.canvas.width, view.canvas.height);
		let n = 0;
		for (let i = 0; i < data.length; i += 4) if (data[i] === r && data[i + 1] === g && data[i + 2] === b) n++;
		return n;
	})()`
}

// led returns the row of the first step of a leader.
func led(t *testing.T, rows []*fuzzy.Record) int {
	t.Helper()
	for i, r := range rows {
		if r != nil && r.Role == "leader" {
			return i
		}
	}
	t.Fatal("the seed has no leader")
	return 0
}

func TestPage_IsDrawnInALightAndADarkTheme(t *testing.T) {
	text, records := traced(t, "f10.history.7")
	at := led(t, drawn(records))
	for scheme, other := range map[string]string{"light": "dark", "dark": "light"} {
		p := open(t, fmt.Sprintf("#row=%d", at), scheme, &tracepage.File{Name: "seed", Text: text})
		assert.Equal(t, scheme, browsertest.Eval[string](p, `document.documentElement.dataset.theme`))
		assert.Greater(t, browsertest.Eval[int](p, countPixels("--lead")), 500, "%s: the leader's lane", scheme)
		assert.Greater(t, browsertest.Eval[int](p, countPixels("--paper")), 50_000, scheme)
		p.Click("#theme")
		assert.Equal(t, other, browsertest.Eval[string](p, `document.documentElement.dataset.theme`))
		assert.Greater(t, browsertest.Eval[int](p, countPixels("--paper")), 50_000, "%s, turned", scheme)
	}
}

func TestPage_OpensTheNotesOfSeveralNodes(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for _, node := range []string{"n1", "n2"} {
		path := filepath.Join(dir, node+".ndjson")
		require.NoError(t, os.WriteFile(path, []byte(nodeTrace(node)), 0o600))
		paths = append(paths, path)
	}
	text, _ := traced(t, "f10.history.7")
	p := open(t, "", "light", &tracepage.File{Name: "seed", Text: text})
	p.Upload("#files", paths...)
	p.Wait(`document.querySelectorAll(".node").length === 2`)
	assert.Contains(t, p.Text(".sentence"), "n1 ended: raft: storage: no space left on device")
	p.Keys(kb.ArrowLeft)
	assert.Contains(t, p.Text(".nodes"), "down · term 1")
	p.Keys(kb.Home)
	p.Keys(kb.ArrowRight + kb.ArrowRight + kb.ArrowRight + kb.ArrowRight)
	assert.Contains(t, p.Text(".nodes"), "leader · term 1")
	p.Keys(kb.Home)
	assert.Contains(t, p.Text(".sentence"), "ask for pre-votes for term 1")
	assert.Contains(t, p.Text(".place"), "22:13:20.000")
}

func TestPage_SaysWhatIsWrongWithAFile(t *testing.T) {
	text, _ := traced(t, "f10.history.7")
	p := open(t, "", "light", &tracepage.File{Name: "seed", Text: text})
	path := filepath.Join(t.TempDir(), "wrong.ndjson")
	for _, row := range refused {
		require.NoError(t, os.WriteFile(path, []byte(row.text), 0o600))
		p.Run(`document.getElementById("problem").hidden = true`)
		p.Upload("#files", path)
		p.Wait(`!document.getElementById("problem").hidden`)
		said := p.Text("#problem")
		assert.Contains(t, said, "wrong.ndjson", row.rule)
		if strings.Contains(row.want, "election lab") {
			assert.Contains(t, said, row.want)
		}
		assert.Contains(t, said, strings.TrimPrefix(known, "; "), row.rule)
		assert.Equal(t, 1, browsertest.Eval[int](p, `document.querySelectorAll(".viewer").length`), "the open diagram stays")
	}
}
