package fuzzy

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
)

// N42: a mark takes back the base that its own step has set. So the disk of a marked member keeps the base that was written
// before.
func TestInvariants_ADiskHasTheBaseThatWasWritten(t *testing.T) {
	for _, row := range []struct {
		rule                   string
		compacts, marks, keeps bool // what the step does, and whether the disk keeps the base from before the step
		sound                  bool
	}{
		{"compacted, and written", true, false, false, true},
		{"compacted, and not written", true, false, true, false},
		{"compacted and marked: the log is evidence", true, true, true, true},
		{"compacted and marked, and written all the same", true, true, false, false},
		{"marked", false, true, true, true},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c, _, follower := running(t)
			follower.queue = nil
			base := follower.disk.baseAt(5)
			out := raft.Output{}
			if row.compacts {
				follower.status.Base = base.ID
			}
			if !row.keeps {
				out.Write.Base, follower.disk.base = &base, base
			}
			if row.marks {
				out.Write.Mark = &raft.Mark{Kind: raft.MarkStaleImage, By: follower.peer()}
				follower.disk.mark = out.Write.Mark
			}
			follower.takeWrite(&out)
			follower.doomed = row.marks
			follower.takeWrite(&raft.Output{}) // the marked member's next step
			c.check.checkCompletedWrites(follower)
			if !row.sound {
				expectBreach(t, c, "N42")
				return
			}
			assert.Nil(t, c.failure)
		})
	}
}

// N45: exactly the messages that waited for a connection leave.
func TestInvariants_WhatLeavesIsWhatWaited(t *testing.T) {
	appended := func(term raft.Term, prev, last raft.Index) raft.Message {
		return raft.Message{Term: term, Body: raft.AppendRequest{Prev: raft.EntryID{Term: 1, Index: prev}, Last: raft.EntryID{Term: 1, Index: last}}}
	}
	reply := raft.Message{Term: 2, Body: raft.AppendReply{Match: 4}}
	early := appended(2, 3, 5)
	early.Body = raft.AppendRequest{Prev: raft.EntryID{Term: 1, Index: 3}, Last: raft.EntryID{Term: 1, Index: 5}, Acknowledged: 4}
	for _, row := range []struct {
		rule          string
		waiting, left []raft.Message
		sound         bool
	}{
		{"two appends, joined", []raft.Message{appended(2, 3, 5), appended(2, 5, 6)}, []raft.Message{appended(2, 3, 6)}, true},
		{"two appends, joined and cut elsewhere", []raft.Message{appended(2, 3, 5), appended(2, 5, 6)}, []raft.Message{appended(2, 3, 4), appended(2, 4, 6)}, true},
		{"two appends, as they were", []raft.Message{appended(2, 3, 5), appended(2, 5, 6)}, []raft.Message{appended(2, 3, 5), appended(2, 5, 6)}, true},
		{"an empty append, joined", []raft.Message{appended(2, 3, 5), appended(2, 5, 5), reply}, []raft.Message{appended(2, 3, 5), reply}, true},
		{"an append of which only a part leaves", []raft.Message{appended(2, 3, 5)}, []raft.Message{appended(2, 3, 4)}, false},
		{"an append that never leaves", []raft.Message{reply, appended(2, 3, 5)}, []raft.Message{reply}, false},
		{"a reply that never leaves", []raft.Message{appended(2, 3, 5), reply}, []raft.Message{appended(2, 3, 5)}, false},
		{"appends of two terms, joined", []raft.Message{appended(2, 3, 5), appended(3, 5, 6)}, []raft.Message{appended(2, 3, 6)}, false},
		{"appends with a gap between them, joined", []raft.Message{appended(2, 3, 5), appended(2, 6, 7)}, []raft.Message{appended(2, 3, 7)}, false},
		{"an append that ends elsewhere", []raft.Message{appended(2, 3, 5)}, []raft.Message{appended(2, 3, 6)}, false},
		{"a message that did not wait", []raft.Message{reply}, []raft.Message{reply, reply}, false},
		{"another message", []raft.Message{reply}, []raft.Message{appended(2, 3, 4)}, false},
		{"an append that begins below what it says was acknowledged", []raft.Message{appended(2, 3, 5)}, []raft.Message{early}, false},
	} {
		c, lead, _ := running(t)
		c.check.checkDelivered(lead, row.waiting, row.left)
		assert.Equal(t, row.sound, c.failure == nil, row.rule)
		if !row.sound {
			expectBreach(t, c, "N45")
		}
	}
}
