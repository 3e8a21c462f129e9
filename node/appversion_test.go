package node_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// boaster announces version 2 in its member's answers to heartbeats, as a program may have done that went back at that moment.
type boaster struct{ raft.Transport }

func (b boaster) Send(to raft.Peer, lane raft.Lane, batch []raft.Message) error {
	for i := range batch {
		if r, ok := batch[i].Body.(raft.HeartbeatReply); ok {
			r.AppVersion = 2
			batch[i].Body = r
		}
	}
	return b.Transport.Send(to, lane, batch)
}

// A member that went back while the minimum rose ends by itself, and continues with the newer program.
func TestAppVersion_ARunningProgramThatIsTooOldEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		version := map[raft.NodeID]uint64{"n1": 2, "n2": 2, "n3": 1}
		c := startAll(t, rafttest.Options{
			NewFSM:    newJournal,
			Configure: func(cfg *node.Config) { cfg.AppVersion = version[cfg.ID] },
			Transport: func(id raft.NodeID, wire raft.Transport) raft.Transport {
				if id == "n3" {
					return boaster{wire}
				}
				return wire
			},
		})
		n := c.Node("n3")
		c.Await("n3 ends", func() bool { return n.Err() != nil })
		var outdated *raft.AppVersionError
		require.ErrorAs(t, n.Err(), &outdated)
		assert.Equal(t, raft.AppVersionError{ID: "n3", Own: 1, Min: 2}, *outdated)
		_, err := n.Propose(t.Context(), []byte("x"))
		require.ErrorIs(t, err, raft.ErrClosed)
		c.Crash("n3")
		_, err = c.Leader().Propose(t.Context(), []byte("new"))
		require.NoError(t, err)

		version["n3"] = 2
		c.Start("n3")
		c.Converge()
		assert.Equal(t, []string{"new"}, c.FSM("n3").(*journal).commands)
		assert.EqualValues(t, 2, c.Node("n3").AppVersionMin())
		s := c.Node("n1").Status()
		assert.EqualValues(t, 3, s.Level)
		for _, m := range s.Members {
			assert.EqualValues(t, [2]uint64{2, 2}, [2]uint64{m.AppVersion, m.Announced}, m.ID)
		}
		c.Restart("n2")
		c.Converge()
		assert.EqualValues(t, 2, c.Node("n2").AppVersionMin(), "also after a restart")
	})
}
