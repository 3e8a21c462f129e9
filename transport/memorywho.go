package transport

import (
	"context"
	"errors"
	"net"

	"github.com/coxswain/raft"
)

// Who implements raft.WhoCarrier. A member that has joined with Join is found at each address whose host is its id. The limits
// of a TCP do not apply. Each error is a *WhoError.
func (m *Memory) Who(ctx context.Context, address string, q raft.Who) (raft.WhoReply, error) {
	reply, err := m.who(ctx, address, q)
	if err != nil {
		return raft.WhoReply{}, &WhoError{Address: address, Err: err}
	}
	return reply, nil
}

func (m *Memory) who(ctx context.Context, address string, q raft.Who) (raft.WhoReply, error) {
	q, err := decodeWho(encodeWho(q))
	if err != nil {
		return raft.WhoReply{}, err
	}
	host, _, _ := net.SplitHostPort(address) // "": no such id
	to, err := m.network.reach(m, raft.Member{ID: raft.NodeID(host), Address: address})
	if err != nil {
		return raft.WhoReply{}, err
	}
	ctx, cancel := untilClosed(ctx, to.stop, whoWorkMax)
	defer cancel()
	var reply raft.WhoReply
	var failed error
	err = to.call(func(e raft.Handler) {
		own := e.Hello(raft.Peer{})
		handler, ok := e.(raft.WhoHandler)
		switch {
		case q.ClusterName != own.ClusterName:
			failed = &RejectedError{By: own.From, Rejection: wrongCluster(own.From, q.ClusterName, own.ClusterName)}
		case !ok:
			failed = refusedQuestion(versionRejection(own.From))
		default:
			reply, failed = handler.Who(ctx, q)
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return raft.WhoReply{}, err
	}
	if _, err := m.network.reach(m, raft.Member{ID: to.id, Address: address}); err != nil {
		return raft.WhoReply{}, err // it was cut off meanwhile
	}
	return decodeWhoReply(encodeWhoReply(reply))
}
