package node

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
)

// noticeVerdicts makes what the core has found out about stores heard: of this one, which ends the node once
// that is written, and of the members that this one leads.
func (n *Node) noticeVerdicts(out raft.Output) {
	for i := range out.Trace {
		if event := &out.Trace[i]; event.Kind == raft.TraceStaleMember {
			n.logger.log(hclog.Warn, "a member holds less than it has acknowledged: it counts no more; replace it like one whose disk was lost",
				"member", string(event.Peer), "acknowledged", uint64(event.Index), "agrees at most up to", event.Hint.String())
		}
	}
	m := out.Write.Mark
	if m == nil {
		return
	}
	n.mark.CompareAndSwap(nil, m)
	n.logger.log(hclog.Error, "this member must not go on", "error", m.Err())
	n.requests.end(m.Err())
	n.applied.end(m.Err())
	n.watched.poke()
}

// verdict is the error of a store that must not go on, also before that is durable; nil: go on.
func (n *Node) verdict() error {
	if m := n.mark.Load(); m != nil {
		return m.Err()
	}
	return nil
}

// endMarked ends the node, which serves nobody any more, a little after its mark has become durable: the leader
// is still to hear why.
func (n *Node) endMarked(m *raft.Mark) {
	time.AfterFunc(n.cfg.ElectionTimeout, func() { n.fail(m.Err()) })
}
