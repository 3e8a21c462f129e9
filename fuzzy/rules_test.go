package fuzzy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The table of rules lists every rule that a failure may name. Every rule in the table is checked.
func TestRules_AreThoseThatAreChecked(t *testing.T) {
	listed := map[string]bool{}
	for _, r := range Rules() {
		assert.False(t, listed[r.Name], "%s appears twice", r.Name)
		assert.NotEmpty(t, r.Sentence, r.Name)
		listed[r.Name] = true
	}
	checked := map[string]bool{"T1": true}         // in cmd/raftlab and TestRun_IsTheSame…
	for _, covered := range []string{"H2", "H3"} { // by the rules that their sentences name
		checked[covered] = true
	}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	name := regexp.MustCompile(`"([NGHILTS][0-9]+)"`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if ruleLine.Match(text) {
			_, err := ruleSources.ReadFile(file)
			assert.NoError(t, err, "its sentences are in no table")
		}
		for _, m := range name.FindAllStringSubmatch(string(text), -1) {
			checked[m[1]] = true
		}
	}
	assert.Equal(t, checked, listed)
}
