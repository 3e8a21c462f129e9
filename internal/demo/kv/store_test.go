package kv_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/rafttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// apply applies the commands as one batch of entries. The first entry has the given index.
func apply(t *testing.T, s *kv.Store, index raft.Index, commands ...kv.Command) []kv.Answer {
	t.Helper()
	var batch []raft.Entry
	for i, c := range commands {
		data, err := c.Encode()
		require.NoError(t, err)
		batch = append(batch, raft.Entry{Index: index + raft.Index(i), Term: 1, Kind: raft.EntryCommand, Data: data})
	}
	results := make([][]byte, len(batch))
	require.NoError(t, s.Apply(batch, results))
	var answers []kv.Answer
	for _, result := range results {
		answer, err := kv.DecodeAnswer(result)
		require.NoError(t, err)
		answers = append(answers, answer)
	}
	return answers
}

// view returns the present version of the store.
func view(t *testing.T, s *kv.Store) kv.View {
	t.Helper()
	v, err := s.View()
	require.NoError(t, err)
	return v
}

func put(key, value string) kv.Command { return kv.Command{Op: kv.Put, Key: key, Value: []byte(value)} }

func TestStore_ARevisionIsTheIndexOfTheLastChange(t *testing.T) {
	var s kv.Store
	answers := apply(t, &s, 7, put("a", "1"), put("b", "2"), put("a", "3"))
	assert.Equal(t, []kv.Answer{{Revision: 7}, {Revision: 8}, {Revision: 9, Existed: true}}, answers)
	item, found := view(t, &s).Get("a")
	require.True(t, found)
	assert.Equal(t, kv.Item{Key: "a", Value: []byte("3"), Revision: 9}, item)
	assert.Equal(t, raft.Index(9), view(t, &s).Applied())
	assert.Equal(t, 2, view(t, &s).Len())
}

func TestStore_AConditionDecidesWhetherAnythingChanges(t *testing.T) {
	for _, row := range []struct {
		rule      string
		condition kv.Condition
		present   bool // with revision 1
		holds     bool
	}{
		{"no condition on a present key", kv.Condition{}, true, true},
		{"no condition on an absent key", kv.Condition{}, false, true},
		{"the revision it has", kv.Condition{Kind: kv.IfRevision, Revision: 1}, true, true},
		{"a revision it had or never had", kv.Condition{Kind: kv.IfRevision, Revision: 2}, true, false},
		{"a revision of an absent key", kv.Condition{Kind: kv.IfRevision, Revision: 1}, false, false},
		{"revision 0 is not absence", kv.Condition{Kind: kv.IfRevision}, false, false},
		{"it exists, and should", kv.Condition{Kind: kv.IfExists}, true, true},
		{"it does not exist, and should", kv.Condition{Kind: kv.IfExists}, false, false},
		{"it exists, and should not", kv.Condition{Kind: kv.IfAbsent}, true, false},
		{"it does not exist, and should not", kv.Condition{Kind: kv.IfAbsent}, false, true},
	} {
		for _, op := range []kv.Op{kv.Put, kv.Delete} {
			t.Run(fmt.Sprintf("%s, op %d", row.rule, op), func(t *testing.T) {
				var s kv.Store
				if row.present {
					apply(t, &s, 1, put("k", "old"))
				}
				before, _ := view(t, &s).Get("k")
				answer := apply(t, &s, 5, kv.Command{Op: op, Key: "k", Value: []byte("new"), Condition: row.condition})[0]
				after, exists := view(t, &s).Get("k")
				if row.holds {
					assert.Equal(t, kv.Answer{Revision: 5, Existed: row.present}, answer)
					assert.Equal(t, op == kv.Put, exists)
					return
				}
				assert.Equal(t, kv.Answer{Failed: true, Revision: before.Revision, Existed: row.present}, answer)
				assert.Equal(t, before, after)
			})
		}
	}
}

func TestStore_WhatIsNoCommandIsAnsweredAndChangesNothing(t *testing.T) {
	for name, data := range map[string][]byte{
		"garbage":           []byte("\xc1garbage"),
		"nothing":           {},
		"an unknown op":     []byte("\x82\xa1o\x09\xa1k\xa1a"),
		"an unknown field":  []byte("\x83\xa1o\x01\xa1k\xa1a\xa1z\x01"), // tolerated
		"no key":            []byte("\x81\xa1o\x01"),
		"a bad condition":   []byte("\x83\xa1o\x01\xa1k\xa1a\xa1c\x09"),
		"a key of bad utf8": []byte("\x82\xa1o\x01\xa1k\xa1\xff"),
	} {
		t.Run(name, func(t *testing.T) {
			var s kv.Store
			results := make([][]byte, 1)
			require.NoError(t, s.Apply([]raft.Entry{{Index: 3, Term: 1, Kind: raft.EntryCommand, Data: data}}, results))
			answer, err := kv.DecodeAnswer(results[0])
			require.NoError(t, err)
			if name == "an unknown field" {
				assert.Equal(t, kv.Answer{Revision: 3}, answer)
				return
			}
			assert.NotEmpty(t, answer.Refused)
			assert.Zero(t, view(t, &s).Len())
		})
	}
}

func TestStore_KeepsNothingOfTheEntriesBytes(t *testing.T) {
	var s kv.Store
	data, err := put("k", "value").Encode()
	require.NoError(t, err)
	require.NoError(t, s.Apply([]raft.Entry{{Index: 1, Term: 1, Data: data}}, make([][]byte, 1)))
	clear(data)
	item, _ := view(t, &s).Get("k")
	assert.Equal(t, "value", string(item.Value))
}

func TestCommand_IsRefusedOverALimit(t *testing.T) {
	for name, c := range map[string]kv.Command{
		"value":     {Op: kv.Put, Key: "k", Value: make([]byte, kv.ValueBytesMax+1)},
		"key":       put(strings.Repeat("k", kv.KeyBytesMax+1), ""),
		"no key":    put("", ""),
		"operation": {Key: "k"},
	} {
		_, err := c.Encode()
		assert.Error(t, err, name)
	}
	largest := put(strings.Repeat("k", kv.KeyBytesMax), string(make([]byte, kv.ValueBytesMax)))
	largest.Condition = kv.Condition{Kind: kv.IfRevision, Revision: 1 << 63}
	data, err := largest.Encode()
	require.NoError(t, err)
	assert.LessOrEqual(t, len(data), kv.CommandBytesMax, "the largest command fits into the node's limit")
	read, err := kv.DecodeCommand(data)
	require.NoError(t, err)
	assert.Equal(t, largest, read)
}

func TestStore_ListsPagesInOrder(t *testing.T) {
	var s kv.Store
	apply(t, &s, 1, put("b/2", ""), put("a", ""), put("b/1", ""), put("b/3", ""), put("b", ""), put("c", ""), put("b/10", ""))
	for _, row := range []struct {
		rule          string
		prefix, after string
		limit         int
		want          []string
		more          bool
	}{
		{"everything", "", "", 10, []string{"a", "b", "b/1", "b/10", "b/2", "b/3", "c"}, false},
		{"a prefix", "b/", "", 10, []string{"b/1", "b/10", "b/2", "b/3"}, false},
		{"the first page", "b/", "", 3, []string{"b/1", "b/10", "b/2"}, true},
		{"the next page", "b/", "b/2", 3, []string{"b/3"}, false},
		{"a page that just fits", "b/", "", 4, []string{"b/1", "b/10", "b/2", "b/3"}, false},
		{"after a key that is not there", "", "b/11", 2, []string{"b/2", "b/3"}, true},
		{"after a key before the prefix", "b/", "a", 10, []string{"b/1", "b/10", "b/2", "b/3"}, false},
		{"after a key behind the prefix", "b/", "c", 10, nil, false},
		{"no such prefix", "x", "", 10, nil, false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			items, more := view(t, &s).List(row.prefix, row.after, row.limit)
			var keys []string
			for _, item := range items {
				keys = append(keys, item.Key)
			}
			assert.Equal(t, row.want, keys)
			assert.Equal(t, row.more, more)
		})
	}
}

func TestStore_KeepsTheContractOfAnFSM(t *testing.T) {
	var commands [][]byte
	for i := range 60 {
		c := put(fmt.Sprint("k", i%7), fmt.Sprint(i))
		switch i % 5 {
		case 1:
			c.Op, c.Value = kv.Delete, nil
		case 2:
			c.Condition = kv.Condition{Kind: kv.IfAbsent}
		case 3:
			c.Condition = kv.Condition{Kind: kv.IfRevision, Revision: raft.Index(2 * i)}
		case 4:
			c.Condition = kv.Condition{Kind: kv.IfExists}
		}
		data, err := c.Encode()
		require.NoError(t, err)
		commands = append(commands, data)
	}
	rafttest.CheckFSM(t, func() raft.FSM { return &kv.Store{} }, append(commands, []byte("no command")))
}

// randomCommand returns a command on one of a few keys. One command in twenty is invalid.
func randomCommand(r *rand.Rand) []byte {
	c := put(fmt.Sprint("k", r.IntN(8)), fmt.Sprint(r.IntN(100)))
	if r.IntN(3) == 0 {
		c.Op, c.Value = kv.Delete, nil
	}
	c.Condition.Kind = kv.ConditionKind(r.IntN(4))
	if c.Condition.Kind == kv.IfRevision {
		c.Condition.Revision = raft.Index(r.IntN(400))
	}
	if r.IntN(20) == 0 {
		return []byte("no command")
	}
	data, err := c.Encode()
	if err != nil {
		panic(err)
	}
	return data
}

func TestStore_AnswersAlikeUnderFaults(t *testing.T) {
	rafttest.Simulate(t, 60, func() raft.FSM { return &kv.Store{} }, randomCommand)
}
