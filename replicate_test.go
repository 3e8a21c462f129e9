package raft_test

import (
	"strings"
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// "If command received from client: append entry to local log, respond after entry applied to state machine
// (§5.3)." (Figure 2, Leaders) The entry is sent to the followers while the leader's own disk still writes it
// (dissertation §10.2.1).
func TestReplicate_CommandIsAppendedAndSent(t *testing.T) {
	c := replicating(t, 2, 1)
	out := c.propose("x")

	want := raft.Entry{Index: 4, Term: 2, Kind: raft.EntryCommand, Time: int64(c.now), Data: []byte("x")}
	assert.Equal(t, raft.Write{
		Seq: c.seq, Log: &raft.LogWrite{After: id(3, 2), Entries: []raft.Entry{want}, Generation: 1}, Commit: 3,
	}, out.Write)
	request := raft.AppendRequest{Prev: id(3, 2), Last: id(4, 2), Commit: 3, Acknowledged: 3, Generation: 1}
	assert.Equal(t, []raft.Message{c.to("b", request), c.to("c", request)}, out.Send)
	assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerAccepted, ID: id(4, 2)}}, out.Answers)
	assert.Zero(t, out.Apply)

	c.persist()
	out = c.receive("b", 2, raft.AppendReply{Match: 4})
	assert.Equal(t, id(4, 2), out.Apply, "it is applied, and the applier answers the caller")
}

// "Leader Append-Only: a leader never overwrites or deletes entries in its log; it only appends new
// entries." (Figure 3)
func TestReplicate_LeaderOnlyAppends(t *testing.T) {
	c := replicating(t, 2, 1)
	for range 3 {
		last := c.Status().Last
		out := c.propose("x", "y")
		require.Equal(t, last, out.Write.Log.After)
	}
	out := c.append("b", 2, id(1, 0), 0, 2)
	assert.Zero(t, out.Write, "not even when another member claims to lead this term")
	assert.Equal(t, []raft.TraceEventKind{raft.TraceRefused}, traced(out))
}

// "for each server, index of the next log entry to send to that server (initialized to leader last
// log index + 1)", and "index of highest log entry known to be replicated on server (initialized to 0)"
// (Figure 2, State)
func TestReplicate_NextAndMatchBeginAtTheLogsEndAndAtZero(t *testing.T) {
	c := leaderOf(t, "abc", 2, 1, 1)
	for _, p := range c.Status().Peers {
		assert.Equal(t, raft.PeerProgress{
			ID: p.ID, Incarnation: p.Incarnation, State: "probe", Match: 0, Next: 4, LastHeard: c.now, Votes: raft.IncomingHalf,
		}, p)
	}
}

// "If successful: update nextIndex and matchIndex for follower (§5.3)." (Figure 2, Leaders)
func TestReplicate_SuccessMovesNextAndMatch(t *testing.T) {
	c := leaderOf(t, "abc", 2, 1)
	c.receive("b", 2, raft.AppendReply{Match: 3})
	p := c.Status().Peers[0]
	assert.Equal(t, raft.PeerProgress{ID: "b", Incarnation: 'b', State: "replicate", Match: 3, Next: 4, LastHeard: c.now, Votes: raft.IncomingHalf}, p)

	c.receive("b", 2, raft.AppendReply{Match: 2})
	assert.EqualValues(t, 3, c.Status().Peers[0].Match, "an old answer does not lower the match")
}

// A log cache keeps the entries after Served. These are the entries that the FSM has not applied and, on a leader, also those
// that some member has not acknowledged.
func TestReplicate_ServedIsWhatEverybodyHasRead(t *testing.T) {
	c := leaderOf(t, "abc", 2, 1)
	c.persist()
	c.receive("b", 2, raft.AppendReply{Match: 3})
	assert.EqualValues(t, 0, c.Served(), "the FSM has not applied it, and c may need it")
	c.step(raft.Applied{ID: id(3, 2)})
	assert.EqualValues(t, 0, c.Served(), "c may need it")
	c.receive("c", 2, raft.AppendReply{Match: 2})
	assert.EqualValues(t, 2, c.Served())
	c.receive("c", 2, raft.AppendReply{Match: 3})
	assert.EqualValues(t, 3, c.Served())

	c = follower(t, 2, 1)
	c.append("b", 2, id(2, 1), 4, 2, 2)
	c.persist()
	assert.EqualValues(t, 0, c.Served())
	c.step(raft.Applied{ID: id(3, 2)})
	assert.EqualValues(t, 3, c.Served(), "a follower sends nothing to others")
}

// If Served waited for silent members, a member that has stopped would keep the log cache full.
func TestReplicate_ServedWaitsForNobodyWhoIsSilent(t *testing.T) {
	c := replicating(t, 2, 1)
	c.step(raft.Applied{ID: c.Status().Last})
	c.propose("x")
	c.persist()
	c.receive("b", 2, raft.AppendReply{Match: 4})
	c.step(raft.Applied{ID: id(4, 2)})
	assert.EqualValues(t, 3, c.Served(), "c may need the last entry")
	c.answering(2*heartbeatPace, "b")
	assert.EqualValues(t, 3, c.Served(), "a slow disk answers now and then")
	c.answering(electionTimeout, "b")
	assert.EqualValues(t, 4, c.Served(), "check-quorum no longer counts c")
	c.receive("c", 2, raft.HeartbeatReply{Round: c.beat, Match: 3})
	assert.EqualValues(t, 3, c.Served(), "it is back")
}

// "If AppendEntries fails because of log inconsistency: decrement nextIndex and retry (§5.3)." (Figure 2,
// Leaders) Both sides skip whole terms.
func TestReplicate_ConflictGoesBackAndRetries(t *testing.T) {
	for _, row := range []struct {
		rule string
		hint raft.EntryID // our log: 1@0 2@1 3@1 4@4 5@4 6@5 7@5, no-op 8@6
		prev raft.EntryID // Prev of the next append
	}{
		{"a shorter log: to its end", id(5, 4), id(5, 4)},
		{"a term that we lack: to our last entry of an earlier term", id(6, 3), id(3, 1)},
		{"a term that ends earlier here: to our last entry of that term", id(6, 4), id(5, 4)},
		{"nothing in common but entry 1", id(1, 0), id(1, 0)},
		{"nothing at all", id(0, 0), id(0, 0)},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := leaderOf(t, "abc", 6, 1, 1, 4, 4, 5, 5)
			out := c.receive("b", 6, raft.AppendConflict{Prev: 7, Hint: row.hint})
			assert.Equal(t, []raft.Body{raft.AppendRequest{Prev: row.prev, Last: id(8, 6), Generation: 1}}, bodies(out.Send, "b"))
			assert.Equal(t, []raft.TraceEventKind{raft.TraceProbeBack}, traced(out))

			out = c.receive("b", 6, raft.AppendConflict{Prev: 7, Hint: row.hint})
			assert.Empty(t, out.Send, "the duplicate answer is an old one")
		})
	}
}

// "If last log index ≥ nextIndex for a follower: send AppendEntries RPC with log entries starting at nextIndex." (Figure 2,
// Leaders) Until the leader knows where the logs agree, it sends one append at a time. After that, it sends as many as the
// window allows.
func TestReplicate_ProbesOneByOneThenStreamsUpToTheWindow(t *testing.T) {
	c := leaderOf(t, "abc", 2, 1)
	assert.Empty(t, appends(c.propose("x").Send, "b"), "one probe at a time")
	out := c.receive("b", 2, raft.AppendReply{Match: 3})
	assert.Equal(t, []raft.Span{{After: 3, Last: 4}}, appends(out.Send, "b"))

	for i := raft.Index(5); i <= 7; i++ {
		assert.Equal(t, []raft.Span{{After: i - 1, Last: i}}, appends(c.propose("x").Send, "b"))
	}
	assert.Empty(t, appends(c.propose("x", "y").Send, "b"), "the window of 4 appends is full")
	out = c.receive("b", 2, raft.AppendReply{Match: 5})
	assert.Equal(t, []raft.Span{{After: 7, Last: 9}}, appends(out.Send, "b"))
	assert.Equal(t, 3, c.Status().Peers[0].Inflight)
}

// An append carries at most AppendBytesMax, but at least one entry.
func TestReplicate_AppendsAreCutToSize(t *testing.T) {
	cfg := coreConfig()
	cfg.AppendBytesMax, cfg.CommandBytesMax, cfg.ProposalBytesMax = 200<<10, 1<<20, 8<<20
	cfg.InflightMax, cfg.InflightBytesMax = 16, 8<<20
	stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3, Hard: raft.HardState{Term: 1}}
	require.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("ab"))))
	c := begin(t, cfg, stored)
	c.electedBy("b")
	c.receive("b", 2, raft.AppendReply{Match: 2})

	big := strings.Repeat("x", 100<<10)
	out := c.propose(big, big, big, strings.Repeat("x", 300<<10), big)
	spans := appends(out.Send, "b")
	require.NotEmpty(t, spans)
	assert.Equal(t, raft.Index(2), spans[0].After)
	assert.Equal(t, raft.Index(7), spans[len(spans)-1].Last)
	for i, s := range spans {
		assert.True(t, i == 0 || s.After == spans[i-1].Last, "the spans fit: %v", spans)
		assert.LessOrEqual(t, s.Last-s.After, raft.Index(2))
	}
}

// The leader sends a new commit index to a follower at once, so that the follower applies as soon as the leader does.
func TestReplicate_CommitIndexIsPushedAtOnce(t *testing.T) {
	c := replicating(t, 2, 1)
	c.propose("x")
	c.persist()
	out := c.receive("b", 2, raft.AppendReply{Match: 4})
	assert.Equal(t, []raft.Body{raft.Heartbeat{Commit: 4}}, bodies(out.Send, "b"))
	assert.Empty(t, bodies(out.Send, "c"), "c has not shown that it holds the entry")
	out = c.receive("c", 2, raft.AppendReply{Match: 4})
	assert.Equal(t, []raft.Body{raft.Heartbeat{Commit: 4}}, bodies(out.Send, "c"))
}

// A lost append is repeated once the answer to a heartbeat shows that the follower is reachable.
func TestReplicate_LostAppendsAreRepeated(t *testing.T) {
	lose := map[string]func(c *core){
		"silently":                   func(*core) {},
		"the transport dropped it":   func(c *core) { c.step(raft.SendDropped{To: peer("b"), Span: raft.Span{After: 3, Last: 4}}) },
		"the connection broke":       func(c *core) { c.step(raft.PeerLost{Peer: peer("b")}) },
		"the connection broke twice": func(c *core) { c.step(raft.PeerLost{Peer: peer("b")}, raft.PeerLost{Peer: peer("b"), Refused: true}) },
		"dropped, and broke": func(c *core) {
			c.step(raft.SendDropped{To: peer("b"), Span: raft.Span{After: 3, Last: 4}}, raft.PeerLost{Peer: peer("b")})
		},
		"broke, and came up, and down": func(c *core) {
			c.step(raft.PeerLost{Peer: peer("b")}, raft.PeerUp{ID: "b", Incarnation: peer("b").Incarnation}, raft.PeerLost{Peer: peer("b")})
		},
	}
	for how, lost := range lose {
		t.Run(how, func(t *testing.T) {
			c := replicating(t, 2, 1)
			c.propose("x")
			lost(c)
			for range 10 {
				c.after(heartbeatPace)
				c.echo("b", max(3, c.Status().Peers[0].Match))
				for spans := appends(c.out.Send, "b"); len(spans) > 0; spans = appends(c.out.Send, "b") {
					if spans[0].After > 3 {
						c.receive("b", 2, raft.AppendConflict{Prev: spans[0].After, Hint: id(3, 2)})
					} else {
						c.receive("b", 2, raft.AppendReply{Match: spans[0].Last})
					}
				}
			}
			assert.Equal(t, raft.Index(4), c.Status().Peers[0].Match)
			assert.Equal(t, "replicate", c.Status().Peers[0].State)
		})
	}
}

// The transport's reports shorten the wait without adding load to a blocked connection. Only the answer to the next heartbeat
// triggers one append.
func TestReplicate_ReportedLossIsRepeatedWithTheNextHeartbeat(t *testing.T) {
	for how, event := range map[string]raft.Event{
		"dropped": raft.SendDropped{To: peer("b"), Span: raft.Span{After: 3, Last: 4}}, "lost": raft.PeerLost{Peer: peer("b")},
	} {
		c := replicating(t, 2, 1)
		c.propose("x")
		assert.Empty(t, appends(c.step(event).Send, "b"), how)
		assert.Equal(t, "probe", c.Status().Peers[0].State, how)
		c.after(heartbeatPace)
		assert.Empty(t, appends(c.out.Send, "b"), how)
		assert.Len(t, appends(c.echo("b", 3).Send, "b"), 1, how)
	}
	c := replicating(t, 2, 1)
	c.propose("x")
	c.step(raft.SendDropped{To: peer("b"), Span: raft.Span{After: 2, Last: 3}})
	assert.Equal(t, "replicate", c.Status().Peers[0].State, "a span from before the last probe has no effect")
}

// A follower whose disk is slow answers heartbeats, but not appends. The leader repeats the append without entries. So the
// follower does not get entries that it already has.
func TestReplicate_SlowFollowerIsNotSentTheSameAgain(t *testing.T) {
	c := replicating(t, 2, 1)
	c.propose("x")
	c.propose("y")
	entriesSent := raft.Index(0)
	for range 40 {
		c.after(heartbeatPace)
		c.echo("b", 3)
		for _, s := range appends(c.out.Send, "b") {
			entriesSent += s.Last - s.After
		}
	}
	assert.Zero(t, entriesSent)
	out := c.receive("b", 2, raft.AppendReply{Match: 4})
	assert.Empty(t, appends(out.Send, "b"), "the answer to the first round says nothing about the second")
	c.receive("b", 2, raft.AppendReply{Match: 5})
	assert.Equal(t, "replicate", c.Status().Peers[0].State)
}

// The duration of a follower's acknowledgements determines when the next acknowledgement is overdue. But if the follower's
// disk has stalled once, a lost append does not wait that long.
func TestReplicate_HowLongAnAcknowledgementIsAwaited(t *testing.T) {
	for _, row := range []struct {
		rule       string
		took, want raft.Time
	}{
		{"a quick disk", heartbeatPace, electionTimeout},
		{"a slow disk", 3 * electionTimeout, 6 * electionTimeout},
		{"a disk that stalled", 100 * electionTimeout, 8 * electionTimeout},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := replicating(t, 2, 1)
			c.propose("x")
			c.persist()
			for began := c.now; c.now < began+row.took; {
				c.after(heartbeatPace)
				c.echo("b", 3)
				c.echo("c", 3)
			}
			c.receive("b", 2, raft.AppendReply{Match: 4})
			require.Equal(t, row.took, c.Status().Peers[0].SlowestAck)
			c.propose("y")
			began := c.now
			for c.Status().Peers[0].State == "replicate" {
				require.Less(t, c.now, began+20*electionTimeout)
				c.after(heartbeatPace)
				c.echo("b", 4)
				c.echo("c", 4)
			}
			assert.Equal(t, row.want, c.now-began)
		})
	}
}

// The time in which a follower was silent does not count as time of its disk. This holds whether its connection broke or
// stalled.
func TestReplicate_AbsenceDoesNotMeasureTheDisk(t *testing.T) {
	for _, row := range []struct {
		rule        string
		goes, comes func(c *core)
	}{
		{
			"lost",
			func(c *core) { c.step(raft.PeerLost{Peer: peer("b")}) },
			func(c *core) { c.echo("b", 3) },
		},
		{"still", func(*core) {}, func(*core) {}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := replicating(t, 2, 1)
			row.goes(c)
			c.propose("x")
			for range 20 {
				c.after(heartbeatPace)
				c.echo("c", 3)
			}
			row.comes(c)
			c.receive("b", 2, raft.AppendReply{Match: 4})
			assert.Equal(t, raft.Index(4), c.Status().Peers[0].Match)
			assert.Less(t, c.Status().Peers[0].SlowestAck, electionTimeout)
		})
	}
}

// A member that connects is sent an append at once.
func TestReplicate_PeerThatComesUpIsProbedAtOnce(t *testing.T) {
	c := replicating(t, 2, 1)
	c.step(raft.PeerLost{Peer: peer("b")})
	assert.Empty(t, appends(c.propose("x").Send, "b"))
	out := c.step(raft.PeerUp{ID: "b", Incarnation: peer("b").Incarnation})
	assert.Equal(t, []raft.Span{{After: 3, Last: 4}}, appends(out.Send, "b"))
	out = c.step(raft.PeerUp{ID: "b", Incarnation: 77})
	assert.Empty(t, out.Send, "another incarnation gets nothing")
}

// The number of allocations of a step does not grow with the number of its entries.
func TestReplicate_AllocationsDoNotGrowWithTheEntries(t *testing.T) {
	cost := func(n int) float64 {
		c := replicating(t, 2, 1)
		data := []byte("command")
		list := make([]raft.Proposal, n)
		return testing.AllocsPerRun(100, func() {
			for i := range list {
				list[i] = raft.Proposal{RequestID: requestIDOfTheTests + raft.RequestID(i), Kind: raft.EntryCommand, Data: data}
			}
			c.step(raft.Proposed{Proposals: list})
			last := c.Status().Last
			c.step(raft.Persisted{Seq: c.seq}, c.from("b", 2, raft.AppendReply{Match: last.Index}),
				c.from("c", 2, raft.AppendReply{Match: last.Index}), raft.Applied{ID: c.out.Apply})
			if c.out.Apply.Index > 0 {
				c.step(raft.Applied{ID: c.out.Apply})
			}
		})
	}
	one, many := cost(1), cost(64)
	assert.LessOrEqual(t, many, one+4, "64 entries in one step against one")
}
