package node_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

func TestWriteTrace_SaysWhatLedToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n := c.Leader()
		n.BreakCore()
		<-n.Done()
		lines := notesOf(t, n)
		first, last := lines[0], lines[len(lines)-1]
		assert.Equal(t, map[string]any{"kind": "notes", "format": float64(node.TraceFormat), "node": string(n.Status().ID)}, first)
		assert.Equal(t, "end", last["kind"])
		assert.Equal(t, n.Err().Error(), last["text"])
		won := 0
		before := 0.0
		for _, line := range lines[1 : len(lines)-1] {
			assert.Equal(t, "note", line["kind"])
			assert.GreaterOrEqual(t, line["time"], before)
			before = line["time"].(float64)
			if line["role"] == "leader" {
				assert.Equal(t, "lead term 1", line["text"])
				assert.EqualValues(t, 1, line["term"])
				won++
			}
		}
		assert.Equal(t, 1, won)
	})
}

func TestWriteTrace_OfARunningNodeEndsWithoutAReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := notesOf(t, rafttest.New(t, 1, newJournal).Leader())
		last := lines[len(lines)-1]
		assert.Equal(t, "end", last["kind"])
		assert.NotContains(t, last, "text")
	})
}

func notesOf(t *testing.T, n *node.Node) (lines []map[string]any) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, n.WriteTrace(&out))
	for scan := bufio.NewScanner(&out); scan.Scan(); {
		line := map[string]any{}
		require.NoError(t, json.Unmarshal(scan.Bytes(), &line))
		lines = append(lines, line)
	}
	return lines
}

func TestDecisions_AreNumberedAndComeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rafttest.New(t, 3, newJournal).Leader()
		all := n.Decisions(0)
		require.NotEmpty(t, all)
		for i, d := range all {
			assert.EqualValues(t, i+1, d.Number)
		}
		assert.Equal(t, all[2:], n.Decisions(2))
		last := uint64(len(all))
		assert.Empty(t, n.Decisions(last))
		assert.Empty(t, n.Decisions(last+7), "a number of another process")
		n.BreakCore()
		<-n.Done()
		assert.Equal(t, all, n.Decisions(0)[:last], "after the end, too")
	})
}
