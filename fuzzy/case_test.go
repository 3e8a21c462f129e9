package fuzzy

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/sim"
)

// Every failure that was found once is a case. The case of a fixed bug in the library must stay clean. The case of a bug in
// the zoo must be clean on this core, because only the bug makes it fail. (Package zoo tests that these cases do fail.)
func TestCases_AreCleanOnThisCore(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		c, err := LoadCase(file)
		require.NoError(t, err)
		r := RunCase(&c, nil)
		require.Nil(t, r.Failure, "replay it: go run ./cmd/raftlab replay %s", filepath.Join("fuzzy", file))
		assert.True(t, c.Mutant != "" || c.Rule == Clean, "%s: it fails without a mutant, so fix the bug", file)
		assert.LessOrEqual(t, len(c.Story), storyMax, file)
		var again bytes.Buffer
		require.NoError(t, c.Write(&again))
		reread, err := ParseCase(file, &again)
		require.NoError(t, err)
		assert.Equal(t, c, reread, file)
	}
}

// A case contains every setting that its seed draws.
func TestCase_IsTheRunOfItsSeed(t *testing.T) {
	for _, name := range []string{"swarm", "history", "calm", "beyond"} {
		c, err := CaseOf(Seed{name, 5})
		require.NoError(t, err)
		c.Rule = Clean
		var file bytes.Buffer
		require.NoError(t, c.Write(&file))
		reread, err := ParseCase("x.txt", &file)
		require.NoError(t, err)
		want, err := Run(Seed{name, 5}, nil)
		require.NoError(t, err)
		assert.Equal(t, want.Hash, RunCase(&reread, nil).Hash, name)
	}
}

const sampleCase = `raftlab case 1
# a sample
expect clean
number 2a
voters 3
length 1s
clients 1
network-delay uniform 0s 1ms 0s
fault power cut every 1s for 20ms injections 1 3-4
requests all
story
  once upon a time
end
`

// Every field of a profile has a setting, so that a case describes its run completely. The faults are an exception: they have
// their own lines.
func TestSettings_NameAllThatAProfileSays(t *testing.T) {
	var p Profile
	named := map[any]bool{&p.Faults: true}
	for _, s := range settings {
		assert.False(t, named[s.at(&p)], "%s appears twice", s.name)
		named[s.at(&p)] = true
	}
	var walk func(at reflect.Value, path string)
	walk = func(at reflect.Value, path string) {
		if named[at.Addr().Interface()] {
			return
		}
		if !assert.Equal(t, reflect.Struct, at.Kind(), "%s has no setting", path) {
			return
		}
		for i := range at.NumField() {
			walk(at.Field(i), path+"."+at.Type().Field(i).Name)
		}
	}
	walk(reflect.ValueOf(&p).Elem(), "Profile")
}

func TestCase_SaysWhatIsWrongWithIt(t *testing.T) {
	c, err := ParseCase("x.txt", strings.NewReader(sampleCase))
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 3, 4}, c.Injections[PowerCut].some)
	for _, row := range []struct{ old, new, want string }{
		{"raftlab case 1", "raftlab case 9", "x.txt:1: the case is of format 9, and this program reads format 1"},
		{"raftlab case 1", "hello", `x.txt:1: "hello": a case file begins with "raftlab case 1"`},
		{"expect clean", "expect N99", `x.txt:3: unknown rule "N99"; there are clean N1 N2`},
		{"number 2a", "number xyz", `number "xyz": it takes a hexadecimal number`},
		{"voters 3", "voters ten", `x.txt:5: voters "ten": it takes a whole number from 1 to 9`},
		{"voters 3", "voters 99", "from 1 to 9"},
		{"voters 3", "voters", "voters has no value"},
		{"voters 3", "voters 3\nvoters 3", "voters appears twice"},
		{"voters 3", "colour red", `unknown setting "colour"; there are from, mutant`},
		{"voters 3", "", `the line "voters …" is missing`},
		{"voters 3", "voters 3\nprofile nonsense", "there are case, swarm"},
		{"voters 3", "voters 3\nignore Z1", `unknown rule "Z1"; there are N1`},
		{"voters 3", "voters 3\nnode-atomic perhaps", "it is on or off"},
		{"length 1s", "length soon", `length "soon": it takes a time from 1ns to 24h0m0s`},
		{"uniform 0s 1ms 0s", "uniform 0s", "it takes uniform, exponential, pareto, bimodal and three times"},
		{"power cut", "earthquake", `unknown fault "earthquake"; there are crash, power cut`},
		{"every 1s", "every day", `every "day": it takes a time up to an hour`},
		{"injections 1 3-4", "injections 4 1", "rising numbers from 1 to 100000"},
		{" injections 1 3-4", "", "it takes a class and times"},
		{"requests all", "requests 1-999999", "numbers from 1 to 100000"},
		{"requests all", "requests all\nfault power cut every 1s for 1s injections all", "fault power cut appears twice"},
		{"end\n", "", "cut short"},
		{"end\n", "end\nmore", `"more" comes after the end`},
		{"story", "", `unknown setting "once"`},
	} {
		text := strings.Replace(sampleCase, row.old, row.new, 1)
		require.NotEqual(t, sampleCase, text)
		_, err := ParseCase("x.txt", strings.NewReader(text))
		assert.ErrorContains(t, err, row.want, "%s", row.new)
	}
	_, err = LoadCase("nonexistent.txt")
	assert.ErrorContains(t, err, "nonexistent.txt")
}

// If a run leaves out an injection, all other classes draw the same numbers as before.
func TestEdits_SkippingOneClassMovesNoOther(t *testing.T) {
	c, err := CaseOf(Seed{"alone", 2})
	require.NoError(t, err)
	faults := func(c *Case) (list []string) {
		RunCase(c, func(r *Record) {
			if r.Kind == "fault" {
				list = append(list, fmt.Sprintf("%v %s", r.Time, r.Text))
			}
		})
		return list
	}
	all := faults(&c)
	fewer := c.clone()
	fewer.Injections[Drift] = ordinals{some: []int64{2}}
	var want []string
	drifts := 0
	for _, line := range all {
		if strings.Contains(line, "drift") {
			if drifts++; drifts != 2 {
				continue
			}
		}
		want = append(want, line)
	}
	require.Greater(t, drifts, 2)
	drift := func(line string) bool { return strings.Contains(line, "drift") }
	assert.Equal(t, without(want, drift), without(faults(&fewer), drift))
	assert.Less(t, len(faults(&fewer)), len(all))
}

func without(list []string, drop func(string) bool) (kept []string) {
	for _, line := range list {
		if !drop(line) {
			kept = append(kept, line)
		}
	}
	return kept
}

// disturbed returns a case that fails L4. Its profile claims to be calm but is not, so many leaders are elected.
func disturbed(t *testing.T) Case {
	c, err := CaseOf(Seed{"alone", 17})
	require.NoError(t, err)
	c.Profile.Name = "calm"
	r := RunCase(&c, nil)
	require.NotNil(t, r.Failure)
	require.Equal(t, "L4", r.Failure.Rule)
	return c
}

// Shrinking removes the parts that the failure does not need. It takes the same steps each time.
func TestShrink_LeavesWhatTheFailureNeeds(t *testing.T) {
	var runs int
	small, err := Shrink(t.Context(), disturbed(t), ShrinkOptions{Rolls: 8, Progress: func(*Shrunk) { runs++ }})
	require.NoError(t, err)
	assert.True(t, small.Minimal)
	assert.Equal(t, runs, small.Attempts)
	assert.LessOrEqual(t, len(small.Case.Profile.Faults), 1)
	assert.Equal(t, 1, small.Case.Profile.Voters)
	assert.Equal(t, "calm", small.Case.Profile.Name)
	assert.Less(t, small.Case.Profile.Length, sim.In(2*time.Second))
	assert.Empty(t, small.Case.Requests.some)
	assert.Less(t, small.Result.Events, 100)
	require.NotEmpty(t, small.Case.Story)
	assert.Contains(t, small.Case.Story[len(small.Case.Story)-1], "L4 fails: ")

	again, err := Shrink(t.Context(), disturbed(t), ShrinkOptions{Rolls: 8})
	require.NoError(t, err)
	assert.Equal(t, small.Case, again.Case)

	assert.NoError(t, small.Case.Verdict(RunCase(&small.Case, nil)))
	small.Case.Rule = "L1"
	assert.ErrorContains(t, small.Case.Verdict(RunCase(&small.Case, nil)), "rule L1 was expected to fail")
	small.Case.Rule = Clean
	assert.ErrorContains(t, small.Case.Verdict(RunCase(&small.Case, nil)), "elections in a healthy cluster")
}

// If a bound ends a search, the search still returns a case that fails. The case may not be the smallest.
func TestShrink_KeepsItsBounds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, small := range []Shrunk{
		shrunk(t, ctx, ShrinkOptions{}), shrunk(t, t.Context(), ShrinkOptions{Attempts: 20}),
	} {
		assert.False(t, small.Minimal)
		assert.LessOrEqual(t, small.Attempts, 23)
		assert.NoError(t, small.Case.Verdict(RunCase(&small.Case, nil)))
		assert.LessOrEqual(t, len(small.Case.Story), storyMax)
		var file bytes.Buffer
		require.NoError(t, small.Case.Write(&file))
	}
}

func shrunk(t *testing.T, ctx context.Context, o ShrinkOptions) Shrunk {
	small, err := Shrink(ctx, disturbed(t), o)
	require.NoError(t, err)
	return small
}

func TestShrink_WhatDoesNotFailIsNotShrunk(t *testing.T) {
	c, err := CaseOf(Seed{"swarm", 8})
	require.NoError(t, err)
	_, err = Shrink(t.Context(), c, ShrinkOptions{})
	assert.ErrorIs(t, err, ErrNothingToShrink)
}

// The story of a long run holds its end, and the events that its failure names.
func TestStory_HasRoomForWhatDecides(t *testing.T) {
	c := disturbed(t)
	story := c.Tell()
	require.Len(t, story, storyMax)
	text := strings.Join(story, "\n")
	for _, want := range []string{" are the members", "is elected, and leads term", "dies; its disk keeps term", "L4 fails"} {
		assert.Contains(t, text, want)
	}
}
