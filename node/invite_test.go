package node

import (
	"testing"

	expect "github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
)

// alone is a transport without connections.
type alone struct{ raft.Transport }

func (alone) Peer(raft.Peer) (s raft.PeerStatus) { return s }

// invited returns the invitations of a member that makes contact with n4, and the invitation of n4.
func invited() (*invitations, *invitation) {
	n := parts(nil, alone{}, nil)
	inv := &invitation{member: raft.Member{ID: "n4", Address: "n4:1"}, changed: newSignal()}
	n.invitations.open["n4"] = inv
	return n.invitations, inv
}

// A replacement with the same id is invited while its former incarnation is still a member. The former incarnation is still
// dialed, and may answer.
func TestInvitations_TheFormerSelfIsSomebodyElse(t *testing.T) {
	v, inv := invited()
	former := raft.Member{ID: "n4", Incarnation: 7, Address: "n4:1"}
	v.node.members.publish(membership{now: Members{Configuration: raft.NewConfiguration([]raft.Member{former})}})

	elsewhere := &raft.Rejection{Reason: raft.RejectOtherCluster}
	v.failed(former.Peer(), elsewhere)
	expect.Nil(t, inv.refusal)
	v.failed(raft.Peer{ID: "n4"}, elsewhere)
	expect.Equal(t, elsewhere, inv.refusal)

	v.up(raft.Hello{From: former.Peer()})
	expect.Nil(t, inv.answered)
	now := raft.Peer{ID: "n4", Incarnation: 8}
	v.up(raft.Hello{From: now})
	expect.Equal(t, now, inv.answered.From)
}

// If a start has dialed this member once, it can reach this member. It does not dial again while that connection is open.
func TestInvitations_ACallBeforeCounts(t *testing.T) {
	v, _ := invited()
	clear(v.open)
	h := raft.Hello{From: raft.Peer{ID: "n4", Incarnation: 8}, Protocol: raft.ProtocolMembership, Lineage: raft.Lineage{}.Begin(1)}
	v.accepted(h)
	invited, err := v.begin([]*raft.Member{{ID: "n4", Address: "n4:1"}}, Members{Index: 1})
	expect.NoError(t, err)
	v.up(h)
	found, err := v.met(invited[0])
	expect.NoError(t, err)
	expect.Equal(t, h.From.Incarnation, found)
}

// Some rejections may pass before the time for contact is over: a slow disk may recover, and a twin process may end.
func TestInvitations_ARejectionThatMayPassIsWaitedFor(t *testing.T) {
	for reason, passes := range map[raft.RejectReason]bool{
		raft.RejectSlowDisk: true, raft.RejectTwin: true, raft.RejectLate: true, raft.RejectOtherCluster: false, raft.RejectRemoved: false,
	} {
		v, inv := invited()
		v.failed(raft.Peer{ID: "n4"}, &raft.Rejection{Reason: reason})
		_, err := v.met(inv)
		expect.Equal(t, passes, err == nil, reason)
	}
}

// The newest configuration in the log may be rolled back. So a member that restarts also dials the members of the
// configuration before it.
func TestContacts_ARestartDialsTheConfigurationBefore(t *testing.T) {
	of := func(ids ...raft.NodeID) raft.Configuration {
		var members []raft.Member
		for _, id := range ids {
			members = append(members, raft.Member{ID: id, Incarnation: 1, Address: string(id) + ":1"})
		}
		return raft.NewConfiguration(members)
	}
	for where, log := range map[string]raft.StoredLog{
		"both are in the log":      {Configs: []raft.ConfigRun{{Index: 1, Config: of("n1", "n2")}, {Index: 5, Config: of("n1", "n3")}}},
		"the former is the base's": {Base: raft.Base{Config: of("n1", "n2")}, Configs: []raft.ConfigRun{{Index: 5, Config: of("n1", "n3")}}},
	} {
		cfg := Config{ID: "n1", Cluster: "test"}
		n := newNode(cfg.withDefaults(), nil, alone{}, raft.Stored{Incarnation: 1, Hard: raft.HardState{Term: 1}, Log: log})
		n.contacts.publish(raft.CoreStatus{Leadership: raft.Leadership{Term: 1}, Config: of("n1", "n3"), ConfigIndex: 5, ConfigCommitted: 1})
		contacts, _, _ := n.contacts.book.Dial(1)
		var ids []raft.NodeID
		for _, k := range contacts {
			ids = append(ids, k.ID)
		}
		expect.Equal(t, []raft.NodeID{"n2", "n3"}, ids, where)
	}
}
