package zoo

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/fuzzy"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if theBuild.dir != "" {
		_ = os.RemoveAll(theBuild.dir)
	}
	os.Exit(code)
}

// theBuild is shared by the tests, because a build takes seconds.
var theBuild struct {
	once sync.Once
	dir  string
	b    *Binary
	err  error
}

func built(t *testing.T) *Binary {
	if testing.Short() {
		t.Skip("builds the simulator")
	}
	theBuild.once.Do(func() {
		if theBuild.dir, theBuild.err = os.MkdirTemp("", "zoo-"); theBuild.err == nil {
			theBuild.b, theBuild.err = Build(context.Background(), theBuild.dir)
		}
	})
	require.NoError(t, theBuild.err)
	return theBuild.b
}

// Some cases were made from mutants. They still fail with these mutants, and with the recorded traces. (Package fuzzy tests
// that they pass without the mutant.)
func TestCases_FailAsTheirStoriesTell(t *testing.T) {
	b := built(t)
	files, err := filepath.Glob("../testdata/cases/*.txt")
	require.NoError(t, err)
	replayed := 0
	for _, file := range files {
		c, err := fuzzy.LoadCase(file)
		require.NoError(t, err)
		if c.Mutant == "" {
			continue
		}
		replayed++
		r, err := b.Replay(t.Context(), c.Mutant, file)
		require.NoError(t, err)
		anew := "make it anew: go run ./cmd/raftlab shrink --mutant " + c.Mutant + " --ignore=" + strings.Join(c.Ignored, ",") +
			" --out fuzzy/testdata/cases/" + filepath.Base(file)
		assert.Equal(t, c.Rule, r.Rule, "%s: %s\n%s", file, r.Text, anew)
		assert.Equal(t, c.Story, r.Story, "%s\n%s", file, anew)
		none, err := b.Replay(t.Context(), Noop, file)
		require.NoError(t, err)
		assert.Empty(t, none.Rule, "%s fails without its mutant, too", file)
	}
	assert.GreaterOrEqual(t, replayed, 2)
}
