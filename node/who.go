package node

import (
	"context"
	"time"

	"github.com/coxswain/raft"
)

// whoWorkMax is how long an answer to Who waits for a round with a quorum, or for the outcome of a petition. It is less than
// what a transport allows for the whole answer.
const whoWorkMax = 3 * time.Second

// Who implements raft.WhoHandler. The answer comes from this member's own store and configuration, so it never repeats what
// others have told this member. It needs the loop only if the caller asks for a confirmation, or petitions.
func (e handler) Who(ctx context.Context, q raft.Who) (raft.WhoReply, error) {
	n := e.node
	if err := n.hasEnded(); err != nil {
		return raft.WhoReply{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, whoWorkMax)
	defer cancel()
	var refused error
	if q.Petition != nil {
		refused = n.petitions.answer(ctx, q)
	}
	confirmed := q.Confirm && n.leadsNow(ctx)
	reply := n.identity.who() // after the round: what the leader then holds is what it has confirmed
	reply.Granted = q.Petition != nil && refused == nil
	if refused != nil {
		reply.Reason = refused.Error()
	}
	m := n.Members()
	if m.Index > 0 {
		reply.Members, reply.Index, reply.Committed = m.Members, m.Index, m.Committed
	}
	now, _ := n.watched.load()
	reply.Leader, reply.Confirmed = now.Leader, confirmed && now.Role == raft.Leader && m.Committed
	return reply, nil
}

// hasEnded returns the error that has ended the node, or nil.
func (n *Node) hasEnded() error {
	select {
	case <-n.stop:
		return n.ended()
	default:
		return nil
	}
}

// leadsNow reports whether this member leads, and a quorum has confirmed that in a round that began after the call.
func (n *Node) leadsNow(ctx context.Context) bool {
	before, _ := n.watched.load()
	if before.Role != raft.Leader {
		return false // ReadIndex would ask the leader
	}
	req, err := n.requests.read()
	if err != nil || n.requests.wait(ctx, req).err != nil {
		return false
	}
	after, _ := n.watched.load()
	return after.Role == raft.Leader && after.Term == before.Term
}

// who returns the part of the answer to Who that says who this member is. Each field is durable.
func (i *identity) who() raft.WhoReply {
	h := i.hello(raft.Peer{})
	return raft.WhoReply{
		From: h.From, ClusterName: h.ClusterName, Cluster: h.Cluster, Term: h.Term, Bootstrapper: h.Bootstrapper, Address: h.Address,
		Founders: i.node.cfg.Founders, Meta: i.node.cfg.Meta,
	}
}
