package resume

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFile_ReturnsWhatWasSavedLast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	state := []int{}
	f, err := Open(path, "count to 3", &state)
	require.NoError(t, err)
	for _, saved := range [][]int{{1}, {1, 2}} {
		require.NoError(t, f.Save(saved))
		state = nil
		_, err = Open(path, "count to 3", &state)
		require.NoError(t, err)
		assert.Equal(t, saved, state)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, left, 1, "no other file is left")
}

func TestOpen_RefusesWhatItCannotResume(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	var state int
	_, err := Open(path, "count to 3", &state)
	require.NoError(t, err)
	_, err = Open(path, "count to 4", &state)
	var other *OtherCampaignError
	require.ErrorAs(t, err, &other)
	assert.Equal(t, []string{path, "count to 3", "count to 4"}, []string{other.Path, other.Has, other.Now})
	assert.ErrorContains(t, err, "remove it to start over")

	text, err := os.ReadFile(path)
	require.NoError(t, err)
	rebuilt := strings.ReplaceAll(string(text), other.Build, "0123456789ab")
	require.NoError(t, os.WriteFile(path, []byte(rebuilt), 0o600))
	_, err = Open(path, "count to 3", &state)
	assert.ErrorAs(t, err, &other, "the results of two builds are not mixed")

	for _, damaged := range []string{"", "{", "[]", strings.ReplaceAll(string(text), `"state":0`, `"state":"x"`)} {
		require.NoError(t, os.WriteFile(path, []byte(damaged), 0o600))
		_, err = Open(path, "count to 3", &state)
		assert.ErrorContains(t, err, path+" holds no progress", damaged)
	}
	_, err = Open(filepath.Join(path, "below"), "count to 3", &state)
	assert.Error(t, err, "a file that cannot be written is noticed before anything runs")
}

func TestOpen_WithoutAPathKeepsNothing(t *testing.T) {
	f, err := Open("", "count to 3", nil)
	require.NoError(t, err)
	assert.NoError(t, f.Save(1))
}
