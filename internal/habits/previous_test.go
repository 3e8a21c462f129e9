package habits

import (
	"archive/zip"
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// previousDir holds the source of the previous release. The test of rolling upgrades builds raftkv from this source.
const previousDir = "compat/previous"

type previousRelease struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	SHA256  string `json:"sha256"`
}

func readPrevious(t *testing.T) (r previousRelease) {
	text, err := os.ReadFile(filepath.Join(previousDir, "release.json"))
	require.NoError(t, err)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&r))
	return r
}

// change is a heading of CHANGELOG.md.
type change struct{ version, commit string }

var changeHeading = regexp.MustCompile(`(?m)^## (Unreleased|v[0-9.]+)(?: \((?:\d{4}-\d\d-\d\d)?(?:, )?(?:commit ([0-9a-f]{40}))?\))?$`)

// releasedLast returns the newest published release. If the first heading of CHANGELOG.md is a release without a commit, this
// release is about to be published, and releasedLast returns the next one. If the first heading is "Unreleased", all releases
// below it are published.
func releasedLast(changes string) (change, error) {
	var found []change
	for _, heading := range regexp.MustCompile(`(?m)^## .*$`).FindAllString(changes, -1) {
		parts := changeHeading.FindStringSubmatch(heading)
		if parts == nil {
			return change{}, fmt.Errorf("CHANGELOG.md: the heading %q is not a release", heading)
		}
		found = append(found, change{parts[1], parts[2]})
	}
	if len(found) > 1 && found[0].commit == "" {
		found = found[1:]
	}
	if len(found) == 0 || found[0].commit == "" {
		return change{}, fmt.Errorf("CHANGELOG.md does not name the commit of the newest release; once it is published, run: " +
			"make previous VERSION=<its version> COMMIT=<its commit>")
	}
	return found[0], nil
}

func TestPrevious_TheNewestReleaseIsWhatTheHeadingsSay(t *testing.T) {
	atRoot(t)
	one, two := strings.Repeat("1", 40), strings.Repeat("2", 40)
	for _, row := range []struct {
		what, changes string
		want          change
	}{
		{"work continues", "## Unreleased\n## v0.2.0 (2026-12-01, commit " + two + ")\n## v0.1.0 (2026-11-23, commit " + one + ")\n", change{"v0.2.0", two}},
		{"a release is being made", "## v0.2.0 (2026-12-01)\n## v0.1.0 (2026-11-23, commit " + one + ")\n", change{"v0.1.0", one}},
		{"it is published, and nothing is new", "## v0.2.0 (2026-12-01, commit " + two + ")\n## v0.1.0\n", change{"v0.2.0", two}},
		{"without a date", "## Unreleased\n## v0.2.0 (commit " + two + ")\n", change{"v0.2.0", two}},
		{"it is published, but not named", "## Unreleased\n## v0.2.0 (2026-12-01)\n## v0.1.0 (2026-11-23, commit " + one + ")\n", change{}},
		{"two are not named", "## v0.2.0\n## v0.1.0 (2026-11-23)\n", change{}},
		{"something else", "## Soon\n## v0.1.0 (commit " + one + ")\n", change{}},
		{"half a commit", "## v0.1.0 (commit 1234)\n", change{}},
		{"nothing", "# Changes\n", change{}},
	} {
		got, err := releasedLast(row.changes)
		assert.Equal(t, row.want, got, row.what)
		assert.Equal(t, row.want == change{}, err != nil, row.what)
	}
}

// The upgrade test starts from the newest release, not from an older one.
func TestPrevious_IsTheNewestRelease(t *testing.T) {
	atRoot(t)
	changes, err := os.ReadFile("CHANGELOG.md")
	require.NoError(t, err)
	newest, err := releasedLast(string(changes))
	require.NoError(t, err)
	kept := readPrevious(t)
	assert.Equal(t, newest, change{kept.Version, kept.Commit}, "run: make previous VERSION=%s COMMIT=%s", newest.version, newest.commit)
}

// previousFiles checks the archive and returns the files in it.
func previousFiles(t *testing.T) map[string][]byte {
	r := readPrevious(t)
	archive, err := os.ReadFile(filepath.Join(previousDir, r.Version+".zip"))
	require.NoError(t, err)
	require.Equal(t, r.SHA256, fmt.Sprintf("%x", sha256.Sum256(archive)), "the archive of %s was changed", r.Version)
	in, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	require.NoError(t, err)
	content := map[string][]byte{}
	for _, f := range in.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		opened, err := f.Open()
		require.NoError(t, err)
		content[f.Name], err = io.ReadAll(opened)
		require.NoError(t, err)
	}
	return content
}

func TestPrevious_TheArchiveIsWhole(t *testing.T) {
	atRoot(t)
	content := previousFiles(t)
	for _, name := range []string{"go.mod", "go.sum", "LICENSE", "cmd/raftkv/main.go"} {
		assert.Contains(t, content, name)
	}
	assert.Contains(t, string(content["go.mod"]), "module github.com/coxswain/raft\n")
	left, err := filepath.Glob(filepath.Join(previousDir, "*.zip"))
	require.NoError(t, err)
	assert.Len(t, left, 1, "one release is kept")
}

// Each file is identical to the file of the release, if git has the release.
func TestPrevious_EachFileIsThatOfTheCommit(t *testing.T) {
	atRoot(t)
	r := readPrevious(t)
	tree, err := exec.Command("git", "-c", "safe.directory=*", "ls-tree", "-r", r.Commit).Output()
	if err != nil {
		t.Skipf("git does not have commit %s here (%v): the archive is not compared with it", r.Commit, err)
	}
	blobs := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(tree)), "\n") {
		properties, name, _ := strings.Cut(line, "\t")
		blobs[name] = strings.Fields(properties)[2]
	}
	for name, content := range previousFiles(t) {
		hash := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(content)), content...))
		assert.Equal(t, blobs[name], fmt.Sprintf("%x", hash), "%s differs from that of commit %s", name, r.Commit)
	}
}
