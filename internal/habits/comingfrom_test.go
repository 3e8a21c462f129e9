package habits

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ourName matches a name of ours with its package in a page: raft.FSM, node.Node.Members, member.Config.Initial.
var ourName = regexp.MustCompile("`(raft|node|member|session|storage|transport|storagetest|transporttest|rafttest|boltfsm|admin)\\.([A-Z]\\w*)(?:\\.([A-Z]\\w*))?")

// apiNames are the names of the golden list of the API, as a page writes them.
func apiNames(t *testing.T) map[string]bool {
	text, err := os.ReadFile("testdata/golden/api.txt")
	require.NoError(t, err)
	names, pkg := map[string]bool{}, ""
	for _, line := range strings.Split(string(text), "\n") {
		if path, ok := strings.CutPrefix(line, "package "); ok {
			pkg = path[strings.LastIndex(path, "/")+1:]
			continue
		}
		for _, form := range []*regexp.Regexp{
			regexp.MustCompile(`^(?:const|var|type) (\w+)()`), regexp.MustCompile(`^func (\w+)()`),
			regexp.MustCompile(`^func \(\*?(\w+)(?:\[\w+\])?\) (\w+)`), regexp.MustCompile(`^type (\w+)(?:\[.*?\])? (?:struct|interface), (\w+)`),
		} {
			if m := form.FindStringSubmatch(line); m != nil {
				names[pkg+"."+m[1]] = true
				names[pkg+"."+m[1]+"."+m[2]] = true
			}
		}
	}
	return names
}

// The page that maps the calls of other libraries to ours names none that does not exist.
func TestComingFrom_NamesWhatThereIs(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("docs/coming-from.md")
	require.NoError(t, err)
	names, found := apiNames(t), 0
	for _, line := range strings.Split(string(text), "\n") {
		if cells := strings.Split(line, " | "); len(cells) == 3 {
			line = cells[1] + cells[2] // the first one has the names of the other library
		}
		for _, m := range ourName.FindAllStringSubmatch(line, -1) {
			name := strings.TrimSuffix(m[1]+"."+m[2]+"."+m[3], ".")
			assert.True(t, names[name], "docs/coming-from.md: there is no %s", name)
			found++
		}
	}
	assert.Greater(t, found, 60)
}
