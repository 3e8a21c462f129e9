package fuzzy

import (
	"errors"
	"slices"

	"github.com/coxswain/raft"
)

// The invariants of disks that older images were put back on.
//
//	N22  A store is marked, and a member taken for stale, only where an older image of a disk was put back.
//	N23  A leader that is told of a lost acknowledgement takes that member for stale and counts it no more.
//	N24  Who notices a mark serves nobody any more, and no start follows.
//
// A scenario may forge what would follow from an older image.

// verdicts checks what a step says of stores.
func (k *checker) verdicts(n *node, out *raft.Output) {
	if n.doomed {
		k.silent(n, out)
	}
	if m := out.Write.Mark; m != nil {
		n.doomed = true
		k.silent(n, out)
		put := n.disk.epoch > 0 || k.c.forged
		for _, other := range k.c.nodes {
			put = put || m.Kind == raft.MarkContradicted && other.disk.epoch > 0
		}
		k.c.holds(put, "N22", "%s marks its store (%v), and no older image was put back", n.id, m.Err())
	}
	for i := range n.status.Peers {
		p := &n.status.Peers[i]
		if w := &n.seen.peers[index(p.ID)]; w.lost && p.State != "stale" {
			k.broken("N23", "%s was told that %s has lost an acknowledgement, and has it as %s", n.id, p.ID, p.State)
		}
		if p.State == "stale" && k.c.nodes[index(p.ID)].disk.epoch == 0 {
			k.broken("N22", "%s takes %s for stale, and no older image was put back there", n.id, p.ID)
		}
	}
}

// silent checks that a member whose store is marked gives nothing away but refusals, and the one answer that
// tells the leader of the loss.
func (k *checker) silent(n *node, out *raft.Output) {
	for i := range out.Answers {
		switch out.Answers[i].Kind {
		case raft.AnswerReadSafe, raft.AnswerTransferred:
			k.broken("N24", "%s is marked, and answers ticket %d", n.id, out.Answers[i].Ticket)
		}
	}
	var said []raft.Message
	for _, m := range slices.Concat(out.Send, out.Write.Then) {
		if _, conflict := m.Body.(raft.AppendConflict); !conflict {
			said = append(said, m)
		}
	}
	k.c.holds(out.Apply.Index == 0 && len(said) == 0, "N24", "%s is marked, and applies up to %v and says %v", n.id, out.Apply, said)
}

// endsMarked ends a process whose store is marked, and tries to start it again.
func (n *node) endsMarked() {
	n.c.stats.Marked++
	n.c.faulted("%s ends for good: %v", n.id, n.disk.mark.Err())
	n.crash()
	stored, err := n.disk.load()
	if err == nil {
		cfg := n.c.profile.coreConfig()
		cfg.ID, cfg.Initial, cfg.NewCluster = n.id, n.given, raft.ClusterID{1}
		_, _, err = raft.NewCore(cfg, stored, raft.Now{Mono: 1})
	}
	var stale *raft.StaleImageError
	var contradicted *raft.ContradictedError
	refused := errors.As(err, &stale) || errors.As(err, &contradicted)
	n.c.holds(refused, "N24", "%s starts on a marked store: %v", n.id, err)
}
