package workload

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func history(key string, steps ...func() (input, output)) *round {
	r := &round{key: key}
	for i, step := range steps {
		in, out := step()
		r.add(i%3, int64(10*i), int64(10*i+5), in, out)
	}
	return r
}

func step(in input, out output) func() (input, output) {
	return func() (input, output) { return in, out }
}

func TestStanding_IsWhatTheKeyMayHoldAtTheEnd(t *testing.T) {
	deleted := step(input{kind: opDelete}, output{revision: 5})
	unsureDelete := step(input{kind: opDelete}, output{unknown: true})
	for _, row := range []struct {
		rule  string
		r     *round
		found output
		want  bool
	}{
		{"nothing was written", history("k"), output{}, true},
		{"nobody wrote that", history("k"), output{value: "a", revision: 1}, false},
		{"the last write", history("k", step(put("a", 1)), step(put("b", 2))), output{value: "b", revision: 2}, true},
		{"an overwritten one", history("k", step(put("a", 1)), step(put("b", 2))), output{value: "a", revision: 1}, false},
		{"it is lost", history("k", step(put("a", 1))), output{}, false},
		{"its revision has changed", history("k", step(put("a", 1))), output{value: "a", revision: 2}, false},
		{"it was deleted", history("k", step(put("a", 1)), deleted), output{}, true},
		{"the deletion is lost", history("k", step(put("a", 1)), deleted), output{value: "a", revision: 1}, false},
		{"an unsure write", history("k", step(put("a", 1)), step(unsurePut("b"))), output{value: "b", revision: 2}, true},
		{"which did not happen", history("k", step(put("a", 1)), step(unsurePut("b"))), output{value: "a", revision: 1}, true},
		{"which was seen", history("k", step(unsurePut("b")), step(get("b", 2))), output{}, false},
		{"an unsure deletion", history("k", step(put("a", 1)), unsureDelete), output{}, true},
		{"a refused swap", history("k", step(put("a", 1)), step(swap("x", "b", 0))), output{value: "b", revision: 2}, false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			assert.Equal(t, row.want, row.r.standing().judge(row.found) == nil)
		})
	}
}

func TestJournal_GivesBackWhatWasWrittenToIt(t *testing.T) {
	r := history("k", step(put("a", 1)), step(get("a", 1)), step(swap("a", "b", 2)), step(swap("x", "c", 0)),
		step(unsurePut("d")), step(input{kind: opDelete}, output{revision: 9}), step(get("", 0)))
	path := filepath.Join(t.TempDir(), "history.ndjson")
	j := openJournal(path)
	j.write(history("other", step(put("z", 1))))
	j.write(r)
	require.NoError(t, j.close())
	again, err := j.read("k")
	require.NoError(t, err)
	assert.Equal(t, r.ops, again.ops)

	assert.ErrorIs(t, openJournal("/no/such/directory/history").close(), os.ErrNotExist)
}

func TestCheck_DrawsAndWritesDownWhatIsNotLinearizable(t *testing.T) {
	dir := t.TempDir()
	r := history("k", step(put("a", 1)), step(put("b", 2)), step(get("a", 1)))
	result, says := r.check(dir)
	require.Equal(t, porcupine.Illegal, result)
	assert.Contains(t, says, "the history of k is not linearizable: see "+dir)
	pages, err := filepath.Glob(filepath.Join(dir, "violation-*.html"))
	require.NoError(t, err)
	require.Len(t, pages, 1)
	page, err := os.ReadFile(pages[0])
	require.NoError(t, err)
	assert.Contains(t, string(page), `get: \"a\", revision 1`)
	lines, err := os.ReadFile(pages[0][:len(pages[0])-len("html")] + "ndjson")
	require.NoError(t, err)
	assert.Contains(t, string(lines), `{"key":"k","client":2,"op":"get","value":"a","revision":1,"call":20,"return":25}`)
}
