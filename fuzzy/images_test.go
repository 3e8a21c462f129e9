package fuzzy

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
	"github.com/coxswain/raft/internal/snapfile"
)

// The profile must reach its purpose: images are put back, refused and marked. Less often, an image is put back that no
// member can recognize.
func TestImages_ArePutBackAndFoundOut(t *testing.T) {
	seeds := fewer(40)
	var images, edges, marked, refused, beyond int
	for number := range uint64(seeds) {
		r, err := Run(Seed{Profile: "images", Number: number}, nil)
		require.NoError(t, err)
		require.Nil(t, r.Failure, "seed %d", number)
		images, edges, marked, refused, beyond = images+r.Images, edges+r.Edges, marked+r.Marked, refused+r.Refusals, beyond+r.Beyond
	}
	t.Logf("%d images in %d runs: %d refusals, %d marks, %d runs beyond what is promised", images, seeds, refused, marked, beyond)
	assert.Greater(t, images, seeds/2)
	assert.Greater(t, edges, seeds/20)
	assert.Greater(t, marked, seeds/4)
	assert.Greater(t, refused, marked-1)
	assert.Positive(t, beyond)
	assert.Less(t, beyond, images/2, "most images meet a witness")
}

// A healed disk completes the write at which it had stalled, including the memory of a peer's new start. Until that memory is
// durable, the member takes no message from the peer and does not count the peer's vote.
func TestImages_AHealedDiskKeepsWhatItsMemberRemembers(t *testing.T) {
	p := calmOfThree(t)
	p.Node.Handshakes = true
	c := newCluster(Seed{"calm", 2}, p)
	turn := func() {
		for until := c.now() + sim.In(time.Second); c.now() < until; {
			c.turn()
		}
		require.Nil(t, c.failure)
	}
	c.prepare()
	turn()
	n, peer := c.nodes[0], c.nodes[1]
	n.disk.stallTill = c.now() + sim.In(time.Hour)
	peer.crash()
	peer.start()
	turn()
	require.True(t, n.hands.keeping)
	require.False(t, n.takes(peer, peer.disk.start()), "it is not durable")
	(&liveness{c: c, core: 1<<len(c.nodes) - 1}).heal()
	turn()
	assert.False(t, n.hands.keeping)
	assert.True(t, n.takes(peer, peer.disk.start()))
}

// An image has the contents of a disk, but not its lack of room. A disk that receives an image has room, even if this disk or
// the copied disk was full.
func TestImages_ADiskThatTakesOneHasRoom(t *testing.T) {
	for _, row := range []struct {
		rule    string
		restore func(n *node, fill func())
	}{
		{"it was full", func(n *node, fill func()) {
			i := n.disk.image()
			fill()
			n.disk.restore(i, false)
		}},
		{"the copied one was full", func(n *node, fill func()) {
			fill()
			i := n.disk.image()
			n.disk.files.roomAgain()
			n.disk.restore(i, false)
		}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c, n, _ := running(t)
			f := &n.disk.files
			row.restore(n, func() {
				f.fullTill, f.free = c.now()+sim.In(time.Hour), f.tree.Used()
				f.tree.Fill(true)
			})
			f.dir = snapfile.Open(f.tree.FS(), snapshotsPath)
			require.NoError(t, n.space().Left(0))
			c.check.checkRoomTaken(n, 0)
			assert.Nil(t, c.failure)
		})
	}
}

func TestImages_ALogInSegmentsThatIsPutBackHasRoom(t *testing.T) {
	c, _, n := runningInSegments(t)
	s := &n.disk.segments
	s.tree.Fill(true)
	i := n.disk.image()
	n.crash()
	n.disk.restore(i, true)
	require.True(t, n.recoverLog())
	assert.Nil(t, c.failure)
}

// Each invariant of handshakes fails when its rule is broken.
func TestImages_TheInvariantsCanFail(t *testing.T) {
	for rule, breach := range map[string]func(n, witness *node){
		"I1": func(n, witness *node) {
			witness.disk.met[n.index] = meeting{n.disk.incarnation, 99, 0}
			witness.admit(n)
		},
		"I2": func(n, witness *node) {
			n.condemned(&raft.Mark{Kind: raft.MarkStaleImage, By: witness.peer()})
		},
		"N22": func(n, witness *node) {
			n.condemned(&raft.Mark{Kind: raft.MarkContradicted, By: witness.peer()})
		},
	} {
		p := plain()
		p.Node.Handshakes = true
		c := newCluster(Seed{Profile: plainName, Number: 1}, p)
		for _, n := range c.nodes {
			n.start()
		}
		breach(c.nodes[0], c.nodes[1])
		require.NotNil(t, c.failure, rule)
		assert.Equal(t, rule, c.failure.Rule)
	}
}

// A breach is excused only if a disk has lost committed entries that it had synced.
func TestImages_OnlyALostCommitmentExcuses(t *testing.T) {
	for _, row := range []struct {
		rule    string
		lie     func(c *cluster, liar *node)
		excused bool
	}{
		{"no disk lied", func(*cluster, *node) {}, false},
		{"a disk lied, and has lost nothing", liesIdly, false},
		{"it has lost what nobody knows to be committed", func(c *cluster, liar *node) {
			before := liar.disk.image()
			liar.disk.log = c.check.lengthen(liar, liar.disk.log, &raft.LogWrite{
				After: liar.disk.log[len(liar.disk.log)-1].entry.ID(), Entries: []raft.Entry{{Index: raft.Index(len(before.log) + 1), Term: 99}},
			})
			liar.disk.restore(before, false)
		}, false},
		{"it has lost what is committed", forgetsCommitted, true},
		{"it has lost what one member knows to be committed, and others have committed another entry there", func(c *cluster, liar *node) {
			forgetsCommitted(c, liar)
			c.check.canonical[len(c.check.canonical)-1].hash++
		}, true},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c, lead := runningFive(t)
			row.lie(c, c.nodes[(lead.index+1)%5])
			c.fail(Safety, "N8", "something committed is missing")
			assert.Equal(t, row.excused, c.lost)
			assert.Equal(t, row.excused, c.failure == nil)
		})
	}
}

// If a disk has lost nothing, there is no reason for a mark, even if an image was put back.
func TestImages_NothingLostMarksNothing(t *testing.T) {
	marks := func(c *cluster, n *node, kind raft.MarkKind) {
		out := raft.Output{Write: raft.Write{Mark: &raft.Mark{Kind: kind, By: n.peer()}}}
		c.check.checkMarks(n, &n.status, nil, &out)
	}
	for _, row := range []struct {
		rule  string
		lie   func(c *cluster, liar *node)
		judge func(c *cluster, lead, liar *node)
		holds bool
	}{
		{"an image with nothing less: no mark", liesIdly, func(c *cluster, _, liar *node) { marks(c, liar, raft.MarkStaleImage) }, false},
		{"an image with less: a mark", forgetsCommitted, func(c *cluster, _, liar *node) { marks(c, liar, raft.MarkStaleImage) }, true},
		{"an image with nothing less: no witness", liesIdly, func(c *cluster, lead, _ *node) { marks(c, lead, raft.MarkContradicted) }, false},
		{"an image with less: a witness", forgetsCommitted, func(c *cluster, lead, _ *node) { marks(c, lead, raft.MarkContradicted) }, true},
		{"an image with nothing less: nobody stale", liesIdly, takesForStale, false},
		{"an image with less: somebody stale", forgetsCommitted, takesForStale, true},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c, lead := runningFive(t)
			liar := c.nodes[(lead.index+1)%5]
			row.lie(c, liar)
			row.judge(c, lead, liar)
			if row.holds {
				require.Nil(t, c.failure)
				return
			}
			require.NotNil(t, c.failure)
			assert.Equal(t, "N22", c.failure.Rule)
		})
	}
}

func liesIdly(_ *cluster, liar *node) { liar.disk.restore(liar.disk.image(), false) }

func takesForStale(c *cluster, lead, liar *node) {
	for i := range lead.status.Peers {
		if p := &lead.status.Peers[i]; p.ID == liar.id {
			p.State = "stale"
		}
	}
	c.check.checkMarks(lead, &lead.status, nil, &raft.Output{})
}

func forgetsCommitted(c *cluster, liar *node) {
	image := liar.disk.image()
	image.log = image.log[:c.check.committed()-1]
	liar.disk.restore(image, false)
}

// I8: after a disk has lost acknowledged entries, another entry may be committed at the same index, and this entry may have
// removed a member. Another member may announce the removal only if it knows the removal.
func TestImages_ARemovalInThePlaceOfWhatWasLostIsTrue(t *testing.T) {
	for _, row := range []struct {
		rule   string
		lie    func(c *cluster, liar *node)
		known  bool
		breach bool
	}{
		{"nothing was lost", func(*cluster, *node) {}, true, true},
		{"a disk lied, and has lost nothing", liesIdly, true, true},
		{"it has lost what is committed, and who says so does not know it", forgetsCommitted, false, true},
		{"it has lost what is committed, and who says so knows it", forgetsCommitted, true, false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c, lead := runningFive(t)
			liar, gone := c.nodes[(lead.index+1)%5], c.nodes[(lead.index+2)%5]
			row.lie(c, liar)
			if row.known {
				config := *lead.config()
				config.Removed = []raft.Removal{{Peer: gone.peer(), Index: lead.last() + 1}}
				lead.status.Commit = lead.rule(config).index
			}
			gone.toldRemoval(lead, lead.status.Commit)
			if !row.breach {
				require.Nil(t, c.failure)
				return
			}
			expectBreach(t, c, "I8")
		})
	}
}

// N23: a leader serves no reads of a member that has lost entries that it acknowledged.
func TestInvariants_AStaleMemberIsServedNoReads(t *testing.T) {
	c, lead, follower := running(t)
	before, out := lead.status, raft.Output{Send: []raft.Message{*message(lead, follower, lead.hard.Term, raft.ReadReply{OK: true})}}
	before.Peers = slices.Clone(before.Peers)
	c.check.checkSentToPeers(lead, &before, &out)
	require.Nil(t, c.failure)
	for i := range before.Peers {
		before.Peers[i].State = "stale"
	}
	c.check.checkSentToPeers(lead, &before, &out)
	expectBreach(t, c, "N23")
}

// Two members may reject each other permanently, because one of them was started too often without the other seeing it. They
// cannot both be in one healed quorum. A link between them does not help either of them to lead, because neither counts the
// other's vote.
func TestImages_AMemberStartedTooOftenIsNotCounted(t *testing.T) {
	p := calmOfThree(t)
	p.Node.Handshakes = true
	c := newCluster(Seed{"calm", 2}, p)
	c.prepare()
	for c.leader() < 0 {
		c.turn()
	}
	lead := c.nodes[c.leader()]
	n, stranger := c.nodes[(lead.index+1)%3], c.nodes[(lead.index+2)%3]
	l := &liveness{c: c, core: 0b111, leader: lead, random: sim.NewStream(2, sim.ProcessConcern)}
	require.Equal(t, uint64(0b111), l.reachers())
	require.Equal(t, []int{0, 1, 2}, c.acquainted([]int{0, 1, 2}))

	n.disk.restarts(c, raft.LineageStartsMax-1)
	n.disk.memory.Confirmed = nil
	assert.False(t, stranger.rejectsPermanently(n), "its record just reaches back to the start that was seen")
	assert.Len(t, c.acquainted([]int{0, 1, 2}), 2, "it does not after the start that heals it")

	n.disk.restarts(c, 1)
	lead.disk.memory.Seen = nil // the leader has not seen it at all
	require.True(t, lead.rejectsPermanently(n), "the record is not durable yet, but will be")
	lead.hands.memory.Seen = nil
	require.True(t, stranger.rejectsPermanently(n))
	require.False(t, lead.rejectsPermanently(n))
	assert.Equal(t, []int{lead.index, n.index}, c.acquainted([]int{lead.index, n.index}))
	assert.Len(t, c.acquainted([]int{0, 1, 2}), 2)
	assert.Equal(t, uint64(0b111), l.reachers(), "all reach a quorum through the leader")
	c.net.Links.CutBoth(sim.Partitions, lead.index, stranger.index)
	assert.Equal(t, uint64(1)<<lead.index|1<<n.index, l.reachers(), "the link between the other two does not help")
}

// A disk may have lost a change of the members. Then its member may vote with the former majority, while the present majority
// elects another leader of the same term. Other losses of a log do not excuse two leaders, because votes are not in the log.
func TestImages_OnlyALostConfigurationExcusesTwoLeaders(t *testing.T) {
	changes := func(s *slot, to raft.EntryID) {
		s.config = &loggedConfig{Configuration: s.config.Configuration, index: to.Index, term: to.Term, before: s.config}
	}
	for _, row := range []struct {
		rule          string
		changed, late bool
	}{
		{rule: "what was lost is an ordinary entry"},
		{rule: "what was lost is an ordinary entry, and the members change later", late: true},
		{rule: "it has changed the members", changed: true},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c, lead := runningFive(t)
			liar, last := c.nodes[(lead.index+1)%5], &c.check.canonical[c.check.committed()-1]
			if row.changed {
				changes(&liar.disk.log[len(liar.disk.log)-1], last.id)
			}
			forgetsCommitted(c, liar)
			if row.late {
				changes(&last.slot, raft.EntryID{Term: last.id.Term, Index: last.id.Index + 1})
			}
			twice := func() { c.fail(Safety, "G1", "two lead one term") }
			if !row.changed {
				twice()
				require.NotNil(t, c.failure)
				return
			}
			assert.PanicsWithValue(t, errCut, twice, "the ids of entries mean nothing from then on")
			assert.Nil(t, c.failure)
			assert.Equal(t, ended, c.phase)
		})
	}
}
