package metrics_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/transport"
)

type dashboard struct {
	Title         string
	SchemaVersion int
	Annotations   struct{ List []struct{ Expr string } }
	Templating    struct{ List []struct{ Name string } }
	Panels        []struct {
		ID          int
		Type, Title string
		Description string
		GridPos     struct{ X, Y, W, H int }
		Datasource  struct{ Type, UID string }
		Targets     []struct{ RefID, Expr string }
	}
}

var (
	variable     = regexp.MustCompile(`\$\{?(\w+)\}?`)
	runbookEntry = regexp.MustCompile(`docs/runbook\.md#[a-z-]+`)
)

// The dashboard has what Grafana needs to load it, and each expression uses metrics and variables that exist.
func TestDashboard_NamesMetricsAndEntriesThatExist(t *testing.T) {
	text, err := os.ReadFile("../docs/dashboard.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	assert.NotEmpty(t, d.Title)
	assert.GreaterOrEqual(t, d.SchemaVersion, 36, "the form of datasources as objects")
	require.Greater(t, len(d.Panels), 10)
	ids, cells, exprs := map[int]bool{}, map[[2]int]string{}, []string{}
	for _, a := range d.Annotations.List {
		exprs = append(exprs, a.Expr)
	}
	for _, p := range d.Panels {
		assert.NotEmpty(t, p.Title)
		assert.NotEmpty(t, p.Type, p.Title)
		assert.Equal(t, "prometheus", p.Datasource.Type, p.Title)
		assert.False(t, ids[p.ID], "%s: another panel has its id", p.Title)
		ids[p.ID] = true
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			exprs = append(exprs, target.Expr)
		}
		assert.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				assert.Empty(t, cells[at], "%s covers another panel", p.Title)
				cells[at] = p.Title
			}
		}
	}
	shown := gather(t, node.Metrics{}, transport.Stats{})
	defined := map[string]bool{"__rate_interval": true, "__interval": true}
	for _, v := range d.Templating.List {
		defined[v.Name] = true
	}
	for _, expr := range exprs {
		checkExpr(t, expr, shown)
	}
	for _, used := range variable.FindAllStringSubmatch(string(text), -1) {
		assert.True(t, defined[used[1]], "no variable %s", used[1])
	}
	entries := map[string]bool{}
	for _, v := range node.Verdicts() {
		entries[v.Runbook()] = true
	}
	for _, entry := range runbookEntry.FindAllString(string(text), -1) {
		assert.True(t, entries[entry], entry)
	}
}

// checkExpr checks the names in an expression, and its brackets. Only a histogram has the suffixes of one.
func checkExpr(t *testing.T, expr string, shown map[string]string) {
	names := metricName.FindAllString(expr, -1)
	if !strings.HasPrefix(expr, "sum(up{") {
		assert.NotEmpty(t, names, expr)
	}
	for _, name := range names {
		if whole := strings.TrimSuffix(name, "_bucket"); whole != name {
			assert.Contains(t, shown[whole], "histogram", expr)
			continue
		}
		assert.Contains(t, shown, name, expr)
	}
	for _, pair := range []string{"()", "{}", "[]"} {
		assert.Equal(t, strings.Count(expr, pair[:1]), strings.Count(expr, pair[1:]), expr)
	}
	assert.Zero(t, strings.Count(expr, `"`)%2, expr)
}
