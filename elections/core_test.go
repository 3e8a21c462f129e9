package elections

import (
	"encoding/binary"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/crc32"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// sourceOfCore returns the files of the core's package, without its tests.
func sourceOfCore(t *testing.T) map[string]*ast.File {
	t.Helper()
	paths, err := filepath.Glob("../*.go")
	require.NoError(t, err)
	files := map[string]*ast.File{}
	for _, path := range paths {
		if name := filepath.Base(path); !strings.HasSuffix(name, "_test.go") {
			files[name], err = parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
		}
	}
	require.NotEmpty(t, files)
	return files
}

// Each file that a part of the core names exists, and contains the function that the part names.
func TestCore_HasWhatIsSaidWhereItIsSaid(t *testing.T) {
	files := sourceOfCore(t)
	for _, p := range coreParts {
		functions := []string{}
		if assert.Contains(t, files, p.File, p.What) {
			for _, d := range files[p.File].Decls {
				if f, ok := d.(*ast.FuncDecl); ok {
					functions = append(functions, f.Name.Name)
				}
			}
		}
		assert.Contains(t, functions, p.Func, p.What)
	}
}

// The core's source never names a feature that the core is said to lack. If somebody adds such a feature to the core, they
// must also change core.go.
func TestCore_LacksWhatIsSaidToBeMissing(t *testing.T) {
	files := sourceOfCore(t)
	for _, l := range coreLacks {
		for name, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				if i, ok := n.(*ast.Ident); ok && l.Word != "" {
					assert.NotContains(t, wordsOf(i.Name), l.Word, "%s: %s: %s", l.What, name, i.Name)
				}
				return true
			})
		}
	}
}

// wordsOf splits a name at its capitals.
func wordsOf(name string) (words []string) {
	start := 0
	for i := 1; i <= len(name); i++ {
		if i == len(name) || name[i] >= 'A' && name[i] <= 'Z' {
			words = append(words, strings.ToLower(name[start:i]))
			start = i
		}
	}
	return words
}

// The preferences of the core are on in raft-preferred, and off in raft.
func TestCore_CampaignsSoonerForNewsOnlyWithItsPreferences(t *testing.T) {
	for _, a := range []*Algorithm{raftCore, raftPreferred} {
		b := raftLedBy2(t, a)
		for r := Rank(1); r <= 3; r += 2 {
			timeUntil := func() sim.Time { return b.timers[r][raftWake] - b.clock }
			before := timeUntil()
			b.machines[r].(*raftMachine).Lost(b.envs[r], 2)
			if a == raftCore {
				assert.Equal(t, before, timeUntil(), "%s: it waits for its full election timeout all the same", a.Name)
			} else {
				assert.Less(t, timeUntil(), before/2, a.Name)
			}
		}
	}
}

// An entry names its group, and the core knows only one.
func TestCore_HasOneGroup(t *testing.T) {
	record := slices.Clone(raft.Entry{Index: 1, Term: 1, Kind: raft.EntryCommand}.Record())
	_, err := raft.DecodeEntry(record)
	require.NoError(t, err)
	record[4] = 1 // the lowest byte of the group's number
	end := len(record) - 4
	binary.LittleEndian.PutUint32(record[end:], crc32.Checksum(record[:end], crc32.MakeTable(crc32.Castagnoli)))
	_, err = raft.DecodeEntry(record)
	var later *raft.LaterVersionError
	require.ErrorAs(t, err, &later)
	assert.Contains(t, later.Record, "group")
}

// An algorithm names every part and every lack in the lists, and the lists contain every part and every lack that an
// algorithm names.
func TestCore_ListsWhatTheAlgorithmsName(t *testing.T) {
	var parts []*CorePart
	var lacks []*CoreLack
	for _, a := range Algorithms() {
		parts, lacks = append(parts, a.InCore...), append(lacks, a.NotInCore...)
	}
	for _, p := range parts {
		assert.True(t, slices.Contains(coreParts, p), p.What)
	}
	for _, p := range coreParts {
		assert.True(t, slices.Contains(parts, p), p.What)
	}
	for _, l := range lacks {
		assert.True(t, slices.Contains(coreLacks, l), l.What)
	}
	for _, l := range coreLacks {
		assert.True(t, slices.Contains(lacks, l), l.What)
	}
}

// A claim that is only a title says nothing: each is one sentence.
func TestCore_SaysItInSentences(t *testing.T) {
	for _, p := range coreParts {
		assert.True(t, strings.HasSuffix(p.What, "."), p.What)
		assert.Equal(t, 1, strings.Count(p.What, "."), p.What)
	}
}
