package joining

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/coxswain/raft"
)

// This file decides who bootstraps and who asks to join: rules 1 to 4 and 6 of docs/decisions/0045.

// bootstrap says what a founder with an uninitialized store does.
func (s *Seeker) bootstrap(st State, a *Action) {
	if !st.uninitialized() || !slices.Contains(s.cfg.Founders, s.cfg.Self.ID) {
		return
	}
	if s.heard != nil {
		if !s.told {
			s.told, a.Heard = true, s.heard
		}
		return
	}
	if s.given || !s.seeded || s.lowest() && len(s.awaited()) > 0 {
		return
	}
	s.given, a.List = true, s.list()
}

// lowest reports whether this member is the founder that bootstraps.
func (s *Seeker) lowest() bool { return slices.Min(s.cfg.Founders) == s.cfg.Self.ID }

// list returns the list of initial members. The founder with the lowest id gives all addresses and Metas, each as that founder
// itself has said. The other founders leave them open.
func (s *Seeker) list() []raft.Member {
	var list []raft.Member
	for _, id := range s.cfg.Founders {
		m := raft.Member{ID: id}
		if s.lowest() {
			if m.Address, m.Meta = s.cfg.Address, s.cfg.Meta; id != s.cfg.Self.ID {
				r := s.replyOf(id)
				m.Address, m.Meta = r.Address, r.Meta
			}
		}
		list = append(list, m)
	}
	return raft.NewConfiguration(list).Members
}

// awaited says, one sentence for each, which founders have not answered as the list needs it, and which other processes would
// begin another cluster.
func (s *Seeker) awaited() (missing []string) {
	for _, id := range s.cfg.Founders {
		if why := s.lacks(id); why != "" {
			missing = append(missing, why)
		}
	}
	for i := range s.places {
		p := &s.places[i]
		if p.reply == nil || len(p.reply.Founders) == 0 || slices.Contains(s.cfg.Founders, p.reply.From.ID) {
			continue // a member without founders begins no cluster
		}
		if why := s.differs(p); why != "" {
			missing = append(missing, why)
		}
	}
	return missing
}

// differs says that the process at a place was started with other founders than this member; "": it was not.
func (s *Seeker) differs(p *place) string {
	if sameIDs(p.reply.Founders, s.cfg.Founders) {
		return ""
	}
	return fmt.Sprintf("%s at %s was started with the founders %v, and this member with %v: give all members the same ones",
		p.reply.From.ID, p.address, p.reply.Founders, s.cfg.Founders)
}

// lacks says in one sentence what is missing of a founder; "": nothing is.
func (s *Seeker) lacks(id raft.NodeID) string {
	var found *place
	for i := range s.places {
		p := &s.places[i]
		switch {
		case p.reply == nil || p.reply.From.ID != id || p.reply.From == s.cfg.Self:
		case id == s.cfg.Self.ID:
			return fmt.Sprintf("another process with the id %s (incarnation %v) answers at %s: give one of the two another id", id, p.reply.From.Incarnation, p.address)
		case found != nil && found.reply.From != p.reply.From:
			return fmt.Sprintf("two processes answer as %s, at %s (incarnation %v) and at %s (incarnation %v): give one of them another id",
				id, found.address, found.reply.From.Incarnation, p.address, p.reply.From.Incarnation)
		case found == nil:
			found = p
		}
	}
	switch {
	case id == s.cfg.Self.ID:
		return ""
	case found == nil:
		return fmt.Sprintf("founder %s has not been found%s", id, s.searched())
	}
	return cmp.Or(s.differs(found), s.misled(found))
}

// misled says in one sentence why the address that a founder gives for itself is wrong; "": the founder answers there.
func (s *Seeker) misled(found *place) string {
	r := found.reply
	says := fmt.Sprintf("%s, found at %s, says that the others reach it at %q", r.From.ID, found.address, r.Address)
	if err := CheckAddress(r.Address); err != nil {
		return fmt.Sprintf("%s: %v: correct its Advertise", says, err)
	}
	own := s.at(r.Address)
	switch {
	case loopback(r.Address) && !loopback(found.address):
		return says + ", which leads each machine to itself: correct its Advertise"
	case own == nil || !own.known:
		return says + ", which has not answered yet"
	case own.reply == nil:
		return fmt.Sprintf("%s, where it does not answer (%s): correct its Advertise", says, own.failure)
	case own.reply.From != r.From:
		return fmt.Sprintf("%s, where %s answers (incarnation %v): correct its Advertise", says, own.reply.From.ID, own.reply.From.Incarnation)
	}
	return ""
}

func sameIDs(a, b []raft.NodeID) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// replyOf returns the latest answer of another member with this id; nil: there is none.
func (s *Seeker) replyOf(id raft.NodeID) *raft.WhoReply {
	for i := range s.places {
		if r := s.places[i].reply; r != nil && r.From.ID == id && r.From != s.cfg.Self {
			return r
		}
	}
	return nil
}

// petitions asks the leader to make this member one of its cluster, unless a petition is open.
func (s *Seeker) petitions(st State, a *Action) {
	founds := slices.Contains(s.cfg.Founders, s.cfg.Self.ID) && st.uninitialized() && s.heard == nil
	if founds || s.petition != "" {
		return
	}
	at, reason := s.leader(st)
	if at == nil {
		s.reason = reason
		return
	}
	if !at.fresh {
		return // it was asked with the present answer
	}
	at.fresh = false
	in := raft.NewConfiguration(at.reply.Members)
	mine, named := in.Peer(s.cfg.Self)
	moved := st.uninitialized() && mine.Address != s.cfg.Address // without the log, it does not correct its entry itself
	if named && !moved && !s.waits(mine, in) {
		s.reason = fmt.Sprintf("configuration %d of %s names this member: it waits for the leader", at.reply.Index, at.reply.From.ID)
		return
	}
	q := s.who()
	q.Petition = &raft.Petition{Meta: s.cfg.Meta, Learner: s.cfg.Learner}
	s.asked, s.petition = true, at.address
	a.Ask = append(a.Ask, Question{Address: at.address, Who: q, Timeout: PetitionMax})
}

// leader returns the place at which the leader of this member's cluster has answered, or the reason why there is none.
func (s *Seeker) leader(st State) (at *place, reason string) {
	for i := range s.places {
		p := &s.places[i]
		switch {
		case p.reply == nil || p.reply.Leader != p.reply.From.ID || p.reply.From == s.cfg.Self || p.reply.Index == 0:
		case st.Cluster != raft.ClusterID{} && st.Cluster != p.reply.Cluster:
			reason = fmt.Sprintf("%s at %s leads cluster %v, and the store of this member is of cluster %v: correct the seeds, or give it an empty store",
				p.reply.From.ID, p.address, p.reply.Cluster, st.Cluster)
		case at != nil && at.reply.Cluster != p.reply.Cluster:
			return nil, fmt.Sprintf("two clusters answer, %v led by %s at %s and %v led by %s at %s: give this member seeds of one of them",
				at.reply.Cluster, at.reply.From.ID, at.address, p.reply.Cluster, p.reply.From.ID, p.address)
		case at == nil || p.reply.Term > at.reply.Term:
			at = p
		}
	}
	if at == nil && reason == "" {
		reason = "no leader of the cluster answers" + s.searched()
	}
	return at, reason
}
