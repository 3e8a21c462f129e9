package transport_test

import (
	"context"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/transport"
	"github.com/coxswain/raft/transport/transporttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// question is that of a member of the cluster "test".
func question(id raft.NodeID) raft.Who {
	return raft.Who{ClusterName: "test", From: firstOf(id), Address: string(id) + ":1"}
}

// Each transport of this package carries each field of the question and of the answer.
func TestWho_EveryFieldArrives(t *testing.T) {
	ca := newAuthority(t)
	network := transport.NewNetwork()
	rows := map[string]func(t *testing.T, id raft.NodeID) (raft.WhoCarrier, string){
		"tcp": func(t *testing.T, id raft.NodeID) (raft.WhoCarrier, string) {
			tcp, err := transport.Listen(loopback, transport.Options{})
			require.NoError(t, err)
			return tcp, tcp.Addr().String()
		},
		"tls": func(t *testing.T, id raft.NodeID) (raft.WhoCarrier, string) {
			tcp, err := transport.Listen(loopback, ca.member(t, "test", id))
			require.NoError(t, err)
			return tcp, tcp.Addr().String()
		},
		"memory": func(_ *testing.T, id raft.NodeID) (raft.WhoCarrier, string) {
			return network.Join(id), string(id) + ":1"
		},
	}
	asked := raft.Who{
		ClusterName: "test", From: raft.Peer{ID: "a", Incarnation: 7}, Address: "a:1", Confirm: true,
		Petition: &raft.Petition{Meta: "http://a", Learner: true},
	}
	answer := raft.WhoReply{
		From: raft.Peer{ID: "b", Incarnation: 1}, ClusterName: "test", Cluster: raft.ClusterID{1}, Term: 2, Bootstrapper: raft.Peer{ID: "c", Incarnation: 3},
		Founders: []raft.NodeID{"a", "b", "c"}, Address: "b:1", Meta: "http://b", Leader: "c",
		Members: []raft.Member{
			{ID: "b", Address: "b:1", Incarnation: 1, Meta: "http://b", Priority: 3},
			{ID: "b", Address: "b:2", Incarnation: 4, Kind: raft.Learner}, {ID: "c", Address: "c:1", Incarnation: 3, Kind: raft.Leaving},
		},
		Index: 9, Committed: true, Confirmed: true, Granted: true, Reason: "because",
	}
	for name, join := range rows {
		t.Run(name, func(t *testing.T) {
			a, _ := join(t, "a")
			b, address := join(t, "b")
			defer func() { require.NoError(t, a.Close()); require.NoError(t, b.Close()) }()
			got := make(chan raft.Who, 1)
			r := transporttest.NewRecorder("b")
			r.Answer = func(_ context.Context, q raft.Who) (raft.WhoReply, error) {
				got <- q
				return answer, nil
			}
			require.NoError(t, b.Start(r))
			reply, err := a.Who(t.Context(), address, asked)
			require.NoError(t, err)
			assert.Equal(t, asked, <-got)
			assert.Equal(t, answer, reply)
			assert.Zero(t, r.Count(), "a question is no handshake, and makes no contact")
		})
	}
}
