package tracepage_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/tracepage"
)

const known = "; there are traces of version 1 and trace events of version 1"

// refused lists files that cannot be shown, and the errors about them.
var refused = []struct{ rule, text, want string }{
	{"an empty file", "", "it is empty"},
	{"no JSON", "hello\n", "line 1: it is not a JSON object of this kind: "},
	{"a run of elections", `{"kind":"begin","text":"raft leader-crash","n":5,"seed":1}` + "\n", "line 1: it is a trace of the election lab, which go run -C elections ./cmd/electionlab trace raft leader-crash 5 1 prints; "},
	{"JSON of something else", `{"hello":1}` + "\n", `line 1: it is of kind "": this is neither a trace nor trace events`},
	{"a trace of a later version", `{"kind":"begin","format":2,"nodes":["a"]}` + "\n", "line 1: a trace of version 2"},
	{"trace events of no version", `{"kind":"notes"}` + "\n", "line 1: trace events of version 0"},
	{"a trace that names no nodes", `{"kind":"begin","format":1}` + "\n", "line 1: a trace that names no nodes"},
	{"a trace without its end", `{"kind":"begin","format":1,"nodes":["a"]}` + "\n", `line 1: the last line is not of kind "end": the file was cut short`},
	{"a trace cut within a line", `{"kind":"begin","format":1,"nodes":["a"]}` + "\n" + `{"kind":"st`, "line 2: it breaks off: the file was cut short"},
	{"a step of a stranger", `{"kind":"begin","format":1,"nodes":["a"]}` + "\n" + `{"kind":"step","node":"b"}` + "\n", `line 2: there is no node "b"`},
	{"two traces in one", strings.Repeat(`{"kind":"begin","format":1,"nodes":["a"]}`+"\n"+`{"kind":"end"}`+"\n", 2), "line 3: it follows the end"},
	{"a line that says nothing", `{"kind":"begin","format":1,"nodes":["a"]}` + "\nnull\n" + `{"kind":"end"}` + "\n", "line 2: it has no kind"},
}

func TestRead_SaysWhatIsWrongAndWhichVersionsThereAre(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, row := range refused {
		require.NoError(t, os.WriteFile(path, []byte(row.text), 0o600))
		_, err := tracepage.Read(path)
		var wrong *tracepage.FormatError
		require.ErrorAs(t, err, &wrong, row.rule)
		assert.Contains(t, err.Error(), path+": "+row.want, row.rule)
		assert.Contains(t, err.Error(), known, row.rule)
	}
}

// nodeTrace is a file that a node with a full disk may leave behind.
func nodeTrace(node string) string {
	return `{"kind":"notes","format":1,"node":"` + node + `"}
{"kind":"note","time":1700000000000000000,"role":"pre-candidate","text":"ask for pre-votes for term 1"}
{"kind":"note","time":1700000000010000000,"term":1,"role":"candidate","text":"start election for term 1"}
{"kind":"note","time":1700000000020000000,"term":1,"role":"leader","text":"lead term 1"}
{"kind":"end","time":1700000001000000000,"text":"raft: storage: no space left on device"}
`
}

func TestPrint_TellsNotesWithTheirTimes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.ndjson")
	require.NoError(t, os.WriteFile(path, []byte(nodeTrace("n1")), 0o600))
	file, err := tracepage.Read(path)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, file.Print(&out, false))
	assert.Contains(t, out.String(), "2023-11-14 22:13:20.010000 n1 term 1  start election for term 1\n")
	assert.Contains(t, out.String(), "n1 the node ended: raft: storage: no space left on device\n")
}
