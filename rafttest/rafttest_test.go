package rafttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// sums is a state machine that adds numbers. fault selects a rule that it breaks.
type sums struct {
	total    int
	restored int // total after the last Restore
	last     []byte
	fault    string
}

func (s *sums) Apply(batch []raft.Entry, results [][]byte) error {
	for i, e := range batch {
		if s.fault == "keeps bytes" && s.last != nil {
			s.total += int(s.last[0])
		}
		s.last = e.Data
		s.total += int(e.Data[0])
		if s.fault == "depends on batches" {
			s.total += len(batch)
		}
		results[i] = []byte(fmt.Sprint(s.total))
	}
	if s.fault == "fails" {
		return errors.New("no")
	}
	return nil
}

func (s *sums) Snapshot() (raft.FSMSnapshot, error) {
	switch s.fault {
	case "snapshot is nil":
		return nil, nil
	case "snapshot fails":
		return nil, errors.New("no")
	case "snapshot forgets":
		return &frozen{&sums{}, s.fault}, nil
	case "snapshot is not frozen":
		return &frozen{s, s.fault}, nil
	case "snapshot forgets what was restored":
		return &frozen{&sums{total: s.total - s.restored}, s.fault}, nil
	}
	return &frozen{&sums{total: s.total}, s.fault}, nil
}

func (s *sums) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error {
	if s.fault == "restore stops early" {
		r = io.LimitReader(r, 1)
	}
	data, err := io.ReadAll(r)
	if err != nil && s.fault != "restore ignores errors" {
		return err
	}
	total, err := strconv.Atoi(string(data))
	if err != nil {
		return err
	}
	if s.fault == "restore adds" || s.fault == "restore keeps what it has" && total == 0 {
		total += s.total
	}
	s.total, s.restored = total, total
	return nil
}

// frozen is a snapshot of sums.
type frozen struct {
	of    *sums
	fault string
}

func (f *frozen) WriteTo(ctx context.Context, w io.Writer) error {
	if f.fault != "write ignores the context" && ctx.Err() != nil {
		return ctx.Err()
	}
	_, err := fmt.Fprint(w, f.of.total)
	if f.fault == "write ignores errors" {
		return nil
	}
	return err
}

func (f *frozen) Close() error { return nil }

func newSums() raft.FSM { return &sums{} }

func TestCheckFSM_FindsWhatIsWrong(t *testing.T) {
	commands := bytes.Split([]byte("a,b,c,d,e,f,g"), []byte(","))
	CheckFSM(t, newSums, commands)
	for fault, want := range map[string]string{
		"depends on batches":                 "in batches of 2",
		"keeps bytes":                        "in batches of",
		"fails":                              "Apply of command 0 failed: no",
		"snapshot fails":                     "FSM.Snapshot failed: no",
		"snapshot is nil":                    "FSM.Snapshot returned nil",
		"snapshot forgets":                   "after Restore the answer",
		"snapshot is not frozen":             "after Restore the answer",
		"snapshot forgets what was restored": "of a restored state",
		"restore adds":                       "after Restore",
		"restore keeps what it has":          "of an empty state",
		"restore ignores errors":             "the reader had failed",
		"restore stops early":                "unread",
		"write ignores errors":               "the writer had failed",
		"write ignores the context":          "cancelled context",
	} {
		err := checkFSM(func() raft.FSM { return &sums{fault: fault} }, commands)
		if assert.Error(t, err, fault) {
			assert.Contains(t, err.Error(), want, fault)
		}
	}
	assert.Error(t, checkFSM(newSums, nil), "nothing to check with")
}

// failures is a testing.TB. It records failures instead of failing a test.
type failures struct {
	testing.TB
	said []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

func TestLedger_FindsDifferentEntriesAtOneIndex(t *testing.T) {
	entry := func(i raft.Index, term raft.Term, data string) []raft.Entry {
		return []raft.Entry{{Index: i, Term: term, Data: []byte(data)}}
	}
	f := &failures{TB: t}
	l := newLedger(f)
	l.record("n1", 0, entry(1, 1, "a"))
	l.record("n2", 0, entry(1, 1, "a"))
	require.Empty(t, f.said)
	l.record("n3", 0, entry(1, 2, "a"))
	require.Len(t, f.said, 1, "another term")
	l.record("n3", 0, entry(1, 1, "b"))
	require.Len(t, f.said, 2, "other bytes")
	l.record("n1", 5, entry(5, 1, "a"))
	require.Len(t, f.said, 3, "the same entry twice")
}

func TestCluster_SurvivesCrashesAndPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t, 3, newSums)
		add := func() {
			t.Helper()
			_, err := c.Leader().Propose(context.Background(), []byte{1})
			require.NoError(t, err)
		}
		add()
		old := c.Leader().Status().ID
		c.Isolate(old)
		add()
		assert.NotEqual(t, old, c.Leader().Status().ID)
		c.Heal()
		c.Restart(old)
		add()
		c.Partition([]raft.NodeID{"n1", "n2"}, []raft.NodeID{"n3"})
		add()
		c.Heal()
		c.Crash("n2")
		assert.Nil(t, c.Node("n2"))
		add()
		c.Start("n2")
		c.Close("n1")
		add()
		c.Start("n1")
		c.Converge()
		for _, id := range c.IDs() {
			assert.Equal(t, 6, c.FSM(id).(*sums).total, id)
		}
	})
}

func TestCluster_WorksInRealTimeToo(t *testing.T) {
	c := New(t, 3, newSums)
	r, err := c.Leader().Propose(context.Background(), []byte{5})
	require.NoError(t, err)
	assert.Equal(t, "5", string(r.Data))
	c.Converge()
}

func TestCluster_MembersMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t, 3, func() raft.FSM { return &sums{} })
		for range 2 { // the second time from an address that JoinAt has registered
			for _, id := range c.IDs() { // includes the leader
				now := c.Move(id)
				m, _ := now.Member(id)
				assert.Equal(t, c.Member(id).Address, m.Address)
			}
		}
		c.Crash(c.Follower().Status().ID) // the other two can reach each other
		_, err := c.Leader().Propose(t.Context(), []byte{1})
		require.NoError(t, err)
	})
}
