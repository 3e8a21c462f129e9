package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "copy the files of the tutorial here (make fix)")

// The pages of the tutorial, in the order in which a reader follows them.
var pages = []string{"../../docs/tutorial.md", "../../docs/tutorial-production.md"}

// step is one block of code of the tutorial.
type step struct {
	at   string // page:line
	kind string // sh, go or diff
	file string // which it writes or edits; "": its commands are run
	text string
}

var fence = regexp.MustCompile("(?m)^(?:`([a-z.]+)`:\n\n)?```([a-z]*)\n((?s:.*?))^```$")

// steps returns all blocks of the tutorial.
func steps(t *testing.T) (all []step) {
	t.Helper()
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range fence.FindAllSubmatchIndex(text, -1) {
			at := func(i int) string {
				if m[i] < 0 {
					return ""
				}
				return string(text[m[i]:m[i+1]])
			}
			line := bytes.Count(text[:m[0]], []byte("\n")) + 1
			all = append(all, step{filepath.Base(page) + ":" + strconv.Itoa(line), at(4), at(2), at(6)})
		}
	}
	require.Greater(t, len(all), 10)
	return all
}

// apply writes or edits the step's file among the files.
func (s step) apply(t *testing.T, files map[string]string) {
	t.Helper()
	if s.kind != "diff" {
		require.NotContains(t, files, s.file, "%s: the file is given twice", s.at)
		files[s.file] = s.text
		return
	}
	for _, hunk := range strings.Split(s.text, "@@\n") {
		var former, next strings.Builder
		for line := range strings.Lines(hunk) {
			if line[0] != '+' {
				former.WriteString(line[1:])
			}
			if line[0] != '-' {
				next.WriteString(line[1:])
			}
		}
		require.Equal(t, 1, strings.Count(files[s.file], former.String()), "%s: this must be in %s once:\n%s", s.at, s.file, former.String())
		files[s.file] = strings.Replace(files[s.file], former.String(), next.String(), 1)
	}
}

// release returns the files of the tutorial: those of the first release, or those of the last.
func release(t *testing.T, last bool) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, s := range steps(t) {
		if s.file != "" && (last || s.kind != "diff") {
			s.apply(t, files)
		}
	}
	return files
}

// The program here is what the reader of the tutorial has at the end, byte for byte.
func TestGolden_TheTutorialBuildsThisProgram(t *testing.T) {
	files := release(t, true)
	assert.Contains(t, files, "main.go")
	here, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range here {
		assert.True(t, files[name] != "" || strings.HasSuffix(name, "_test.go"), "%s is not in the tutorial", name)
	}
	for name, text := range files {
		if *update {
			require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
		}
		written, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Equal(t, text, string(written), "%s differs from the tutorial: change the tutorial, and make fix copies it here", name)
	}
}

// expected splits a block of commands into these and what they print.
func (s step) expected() (commands string, want []string) {
	var run strings.Builder
	for line := range strings.Lines(s.text) {
		if printed, ok := strings.CutPrefix(line, "# "); ok {
			want = append(want, strings.TrimSuffix(printed, "\n"))
		} else {
			run.WriteString(line)
		}
	}
	return run.String(), want
}

// agrees reports whether an output is as the tutorial says. "…" stands for anything in a line, and alone for any lines.
func agrees(want []string, got string) bool {
	var pattern strings.Builder
	pattern.WriteString(`^`)
	for _, line := range want {
		if line == "…" {
			pattern.WriteString(`(?:.*\n)*`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + `\n`)
	}
	return regexp.MustCompile(pattern.String() + `$`).MatchString(got)
}

func TestAgrees_IsStrict(t *testing.T) {
	for _, row := range []struct {
		want, got string
		agrees    bool
	}{
		{"5", "5\n", true},
		{"5", "6\n", false},
		{"5", "5\n5\n", false},
		{"5\n5", "5\n", false},
		{"n… is ready", "n2 is ready\n", true},
		{"a\n…\nd", "a\nb\nc\nd\n", true},
		{"a\n…\nd", "a\nb\nc\n", false},
		{"…", "", true},
		{"a.c", "abc\n", false},
	} {
		assert.Equal(t, row.agrees, agrees(strings.Split(row.want, "\n"), row.got), "%q %q", row.want, row.got)
	}
}
