package electionpage

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/elections"
	"github.com/coxswain/raft/internal/viewer"
	"github.com/coxswain/raft/internal/viewer/browsertest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		takeFewer()
	}
	os.Exit(browsertest.Main(m))
}

// takeFewer gives tests fewer runs. It is for -short, and for the race detector, under which each run takes ten times as
// long.
func takeFewer() {
	comparedSeeds = 1
	followedSeeds = 1
}

// comparison is one of all algorithms and scenarios, which the tests share.
var comparison struct {
	once  sync.Once
	plan  *elections.Plan
	cells []elections.Cell
	page  bytes.Buffer
	err   error
}

// comparedSeeds is how many runs of each cell the comparison has to choose from.
var comparedSeeds = 4

// allDrawn returns the diagrams of the comparison, which the tests share, too.
var allDrawn = sync.OnceValues(func() ([]viewer.Diagram, error) {
	setup := comparison.plan.Setup
	return diagrams(comparison.plan, comparison.cells, &setup)
})

func compared(t *testing.T) (*elections.Plan, []elections.Cell) {
	t.Helper()
	c := &comparison
	c.once.Do(func() {
		c.plan = &elections.Plan{
			Algorithms: elections.Algorithms(), Scenarios: elections.Scenarios(), Sizes: []int{3, 5}, First: 1, Seeds: comparedSeeds,
			Setup: *fiveMembers(), Workers: 2,
		}
		if c.cells, c.err = c.plan.Compare(context.Background()); c.err == nil {
			c.err = Write(&c.page, c.plan, c.cells, elections.Measures())
		}
	})
	require.NoError(t, c.err)
	return c.plan, c.cells
}

func open(t *testing.T, fragment, scheme string) *browsertest.Page {
	t.Helper()
	compared(t)
	return browsertest.Open(t, func(f *os.File) error {
		_, err := f.Write(comparison.page.Bytes())
		return err
	}, fragment, scheme)
}

const (
	pageBytesMax = 3_000_000
	left, right  = 0, 1
)

// in evaluates an expression for one of the two panes, and returns the result. The expression refers to the pane as pane.
func in[T any](p *browsertest.Page, pane int, expression string) T {
	return browsertest.Eval[T](p, fmt.Sprintf("(pane => %s)(document.querySelectorAll('.viewer')[%d])", expression, pane))
}

func sentenceOf(p *browsertest.Page, pane int) string {
	return in[string](p, pane, `pane.querySelector(".sentence").innerText`)
}

// choose chooses from a list by its text.
func choose(p *browsertest.Page, list, text string) {
	p.Run(fmt.Sprintf(`const s = %s; s.selectedIndex = [...s.options].findIndex((o) => o.text === %q);
		s.dispatchEvent(new Event("change"))`, list, text))
}

func chooseAlgorithm(p *browsertest.Page, pane int, title string) {
	choose(p, fmt.Sprintf(`document.querySelectorAll(".viewer")[%d].querySelector("select")`, pane), title)
}

func chooseScenario(p *browsertest.Page, title string) {
	choose(p, `document.querySelector("#together select")`, title)
}

// bands is how many rows of a pane are marks of split brain.
func bands(p *browsertest.Page, pane int) int {
	const bad = `viewerPage.panes[%d].model.bands.filter((b) => b.mark.c === "bad").length`
	return browsertest.Eval[int](p, fmt.Sprintf(bad, pane))
}

func TestPage_IsSmallAndNeedsNothingFromElsewhere(t *testing.T) {
	p, _ := compared(t)
	assert.Less(t, comparison.page.Len(), pageBytesMax)
	outside := regexp.MustCompile(`(?:src|href)="(?:[^"d#]|d[^"a])|url\(|@import|https?://|\bfetch\(`)
	assert.Empty(t, outside.FindAllString(comparison.page.String(), -1))
	b := open(t, "", "light")
	drawn := len(p.Algorithms) // the example
	for _, s := range p.Scenarios {
		for _, a := range p.Algorithms {
			if s.Takes(a) {
				drawn++
			}
		}
	}
	assert.Equal(t, drawn, browsertest.Eval[int](b, "viewerPage.diagrams.length"))
	assert.Zero(t, browsertest.Eval[int](b, `performance.getEntriesByType("resource").length`), "nothing is loaded")
}

func TestPage_BeginsAtTheFirstStopOfTheTour(t *testing.T) {
	p := open(t, "", "light")
	assert.Equal(t, "Bully, three steps", in[string](p, left, `pane.querySelector("select").value`))
	assert.Equal(t, "Raft", in[string](p, right, `pane.querySelector("select").value`))
	assert.Equal(t, "Leader crash", browsertest.Eval[string](p, `document.querySelector("#together select").value`))
	assert.Contains(t, sentenceOf(p, left), "The leader crashes.")
	assert.Contains(t, p.Text(".told"), "Press →")
	said := strings.Join(strings.Fields(p.Text("#together .legend")), " ")
	assert.Contains(t, said, "L leads F follows ? knows no leader × down", "what the letters and colours mean")
	assert.Contains(t, said, "→ of an election")
	assert.Equal(t, "dashed", browsertest.Eval[string](p, `getComputedStyle(document.querySelector("#together .dashes")).borderTopStyle`))
}

func TestPage_IsSteppedByKeysForwardsAndBackwards(t *testing.T) {
	p := open(t, "", "light")
	first := in[int](p, left, "Number(pane.dataset.row)")
	said := []string{sentenceOf(p, left)}
	for range 3 {
		p.Keys(kb.ArrowRight)
		said = append(said, sentenceOf(p, left))
	}
	assert.Equal(t, first+3, in[int](p, left, "Number(pane.dataset.row)"))
	assert.Contains(t, strings.Join(said, "\n"), "I start an election: I ask every higher rank if it is alive.")
	p.Keys(kb.ArrowLeft + kb.ArrowLeft + kb.ArrowLeft)
	assert.Equal(t, said[0], sentenceOf(p, left))
}

func TestPage_MovesBothSidesTogetherInTimeUntilTold(t *testing.T) {
	p := open(t, "", "light")
	time := `(pane.querySelector(".place").innerText.split("·")[1])`
	p.Keys(kb.End)
	last := "pane.dataset.row === pane.querySelector('.slider').max"
	assert.True(t, in[bool](p, left, last))
	before := in[string](p, right, time)
	p.Click("#together input")
	p.Run("document.activeElement.blur()")
	p.Keys(kb.Home)
	assert.Equal(t, "0", in[string](p, left, "pane.dataset.row"))
	assert.Equal(t, before, in[string](p, right, time), "the right side stays when they are not bound")
	p.Click("#together input")
	assert.NotEqual(t, before, in[string](p, right, time))
}

func TestPage_ShowsSplitBrainOfBullyAndNoneOfRaft(t *testing.T) {
	p := open(t, "", "light")
	chooseScenario(p, "Majority/minority partition")
	assert.Positive(t, bands(p, left))
	assert.Zero(t, bands(p, right))
	assert.Contains(t, sentenceOf(p, left), "Split brain for 9.", "a reader begins at what went wrong")
	assert.Contains(t, p.Text("#together .meaning"), "cut off")

	chooseAlgorithm(p, right, "Invitation")
	assert.Positive(t, bands(p, right))
	assert.Contains(t, sentenceOf(p, right), "lead")
	about := in[string](p, right, `(pane.querySelector(".about").open = true, pane.querySelector(".about").innerText)`)
	for _, a := range elections.Algorithms() {
		if a.Title == "Invitation" {
			for _, text := range []string{a.Source, a.Assumes, a.Guarantees, a.CoreHas(), a.Leaves} {
				assert.Contains(t, about, text)
			}
		}
	}
}

func TestPage_ColoursWhomEachMemberTakesForTheLeader(t *testing.T) {
	p := open(t, "", "light")
	chooseScenario(p, "Majority/minority partition")
	believes := `[...pane.querySelectorAll(".node .role")].map((role) => role.innerText).join("; ")`
	p.Keys(kb.Home)
	assert.NotContains(t, in[string](p, left, believes), "leads · leader 4")
	p.Keys("f" + kb.ArrowRight + kb.ArrowRight + kb.ArrowRight)
	now := in[string](p, left, believes)
	assert.Equal(t, 2, strings.Count(now, "leads"), now)
}

func TestPage_TourAndLinksRestoreAView(t *testing.T) {
	p := open(t, "", "dark")
	assert.Equal(t, "dark", browsertest.Eval[string](p, "document.documentElement.dataset.theme"))
	p.Click(".tour li:nth-child(3) a")
	p.Wait(`document.querySelector("#together select").value === "Majority/minority partition"`)
	assert.Equal(t, "Ballots, no quorum", in[string](p, left, `pane.querySelector("select").value`))
	assert.Contains(t, sentenceOf(p, left), "Split brain")
	assert.Contains(t, p.Text(".told"), "One algorithm, with and without")
	assert.Equal(t, "The cure is a majority", p.Text(".tour [aria-current]"))
	p.Keys(kb.ArrowRight + kb.ArrowRight)
	here := [2]string{sentenceOf(p, left), sentenceOf(p, right)}
	p.Wait(`location.hash.includes("row2=")`)
	p.Wait(`location.hash.includes("&row=" + (viewerPage.panes[0].row + 1) + "&")`)
	link := browsertest.Eval[string](p, "location.hash")

	again := open(t, link, "light")
	assert.Equal(t, "Ballots, majority", in[string](again, right, `pane.querySelector("select").value`))
	assert.Equal(t, here, [2]string{sentenceOf(again, left), sentenceOf(again, right)})

	chooseScenario(p, "Cascade")
	assert.Empty(t, p.Text(".told"), "who chooses another scenario has left the tour")
	assert.Zero(t, browsertest.Eval[int](p, `document.querySelectorAll(".tour [aria-current]").length`))
}

// A busy browser may announce a link late. In this test the announcement comes after the time at which the page notes the
// place of an earlier move.
func TestPage_ALinkHoldsWhileAnEarlierMoveIsNoted(t *testing.T) {
	p := open(t, "", "light")
	p.Run(`const follow = viewerPage.follow, noted = 150;
		viewerPage.follow = () => setTimeout(() => follow.call(viewerPage), 2 * noted)`)
	p.Run(`viewerPage.panes[0].go(3); document.querySelector(".tour li:nth-child(3) a").click()`)
	p.Wait(`document.querySelector("#together select").value === "Majority/minority partition"`)
	assert.Equal(t, "Ballots, no quorum", in[string](p, left, `pane.querySelector("select").value`))
}

func TestCharts_ShowTheNumbersOfTheReport(t *testing.T) {
	plan, cells := compared(t)
	report := elections.NewReport(plan, cells, elections.Measures())
	p := open(t, "", "light")
	for _, scenario := range []string{"leader-crash", "minority", "loss-20"} {
		s, err := elections.FindScenario(scenario)
		require.NoError(t, err)
		choose(p, `document.querySelector(".pick select")`, s.Title)
		for _, n := range plan.Sizes {
			choose(p, `document.querySelectorAll(".pick select")[1]`, strconv.Itoa(n))
			for _, c := range report.Cells {
				if c.Scenario == scenario && c.N == n {
					assertCharted(t, p, &c)
				}
			}
		}
	}
	assert.Equal(t, len(plan.Algorithms), browsertest.Eval[int](p, `document.querySelectorAll(".numbers tbody tr").length`))
}

// assertCharted compares a cell's line in each card with the report: times are shown in milliseconds.
func assertCharted(t *testing.T, p *browsertest.Page, c *elections.ReportCell) {
	t.Helper()
	const ms = 1e6
	for _, m := range elections.Measures() {
		line := fmt.Sprintf(`[...document.querySelectorAll(".card[data-measure=%s] [data-algorithm=%s] .value")]
			.map((v) => v.innerText)`, m.Name, c.Algorithm)
		shown := browsertest.Eval[[]string](p, line)
		s := c.Summary[m.Name]
		want := []float64{float64(s.Median), float64(s.P99), float64(s.Worst)}
		switch {
		case m.Unit() == "%":
			want = []float64{100 * float64(s.Sum) / float64(c.Runs)}
		case m.Measure == elections.TwoInTerm && s.Median == elections.Never:
			assert.Empty(t, shown, "an algorithm without terms has no line")
			continue
		}
		require.Len(t, shown, len(want), "%s %s", c.Algorithm, m.Name)
		for i, text := range shown {
			if want[i] == elections.Never {
				assert.Equal(t, "–", text)
				continue
			}
			value, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
			require.NoError(t, err)
			if m.Unit() == "ns" {
				want[i] /= ms
				assert.InDelta(t, want[i], value, 0.51, "%s %s", c.Algorithm, m.Name)
				continue
			}
			assert.InDelta(t, want[i], value, 0.1, "%s %s", c.Algorithm, m.Name)
		}
	}
}

func TestCharts_GoAlongWithTheDiagramsAndPutTheBestOnTop(t *testing.T) {
	p := open(t, "", "light")
	chooseScenario(p, "20 % loss")
	assert.Equal(t, "20 % loss", browsertest.Eval[string](p, `document.querySelector(".pick select").value`))
	medians := browsertest.Eval[[]float64](p,
		`[...document.querySelectorAll(".card[data-measure=messages] [data-algorithm] .value:nth-child(3)")]
			.map((v) => v.innerText === "–" ? 1e12 : Number(v.innerText.replace(",", "")))`) // never is worst
	require.Len(t, medians, len(elections.Algorithms()))
	assert.IsNonDecreasing(t, medians)
}

func TestWrite_OfOneRunOrOfManyMembersIsAPage(t *testing.T) {
	for _, row := range []struct {
		scenario string
		n        int
		diagrams int
	}{{"minority", 3, 1}, {"leader-crash", elections.MembersMax, 0}} {
		a, s := lookUp(t, "raft", row.scenario)
		plan := &elections.Plan{
			Algorithms: []*elections.Algorithm{a}, Scenarios: []*elections.Scenario{s}, Sizes: []int{row.n}, First: 7, Seeds: 1,
			Setup: *fiveMembers(), Workers: 1,
		}
		cells, err := plan.Compare(context.Background())
		require.NoError(t, err)
		p := browsertest.Open(t, func(f *os.File) error { return Write(f, plan, cells, elections.Measures()) }, "", "light")
		assert.Equal(t, row.diagrams, browsertest.Eval[int](p, `document.querySelectorAll(".viewer").length`))
		assert.Equal(t, len(elections.Measures()), browsertest.Eval[int](p, `document.querySelectorAll(".card").length`))
	}
}
