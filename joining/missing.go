package joining

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coxswain/raft"
)

// searchedMax bounds the places that one sentence names.
const searchedMax = 5

// Missing says what this member waits for, one sentence each, with where it has looked and what to correct. It is empty once the
// member has a leader and its place in the configuration.
func (s *Seeker) Missing(st State) (missing []string) {
	if s.move.why != "" {
		missing = append(missing, s.move.why)
	}
	if s.settled {
		return missing
	}
	if s.unknown != "" {
		missing = append(missing, "seeds: "+s.unknown)
	}
	switch founder := slices.Contains(s.cfg.Founders, s.cfg.Self.ID); {
	case s.unknown != "" && !s.began:
		missing = append(missing, "every look-up of the seeds has failed, so nobody was asked yet")
	case !s.seeded:
		missing = append(missing, "the seeds have not all answered or failed yet"+s.searched())
	case st.uninitialized() && founder && s.heard != nil:
		missing = append(missing, fmt.Sprintf("%s has heard of cluster %v of this name, from %s in term %d, and so asks to join it and bootstraps none; a restart forgets that",
			s.cfg.Self.ID, s.heard.Cluster, s.heard.From.ID, s.heard.Term))
	case st.uninitialized() && founder:
		missing = append(missing, s.awaited()...)
		if first := slices.Min(s.cfg.Founders); first != s.cfg.Self.ID && s.replyOf(first) == nil {
			missing = append(missing, fmt.Sprintf("if %s, which bootstraps the cluster, is permanently lost and every founder says this, nothing was ever committed: empty all stores and start again, with another machine as %s",
				first, first))
		}
	}
	if s.reason != "" {
		missing = append(missing, s.reason)
	}
	return missing
}

// searched says where this member has looked, as the end of a sentence.
func (s *Seeker) searched() string {
	var words []string
	others := false
	for i := range s.places {
		p := &s.places[i]
		switch {
		case p.reply == nil && !p.known:
			words = append(words, p.address+" (no answer yet)")
		case p.reply == nil:
			words = append(words, fmt.Sprintf("%s (%s)", p.address, p.failure))
		case p.reply.From == s.cfg.Self:
			words = append(words, p.address+" (this member itself)")
			continue
		default:
			words = append(words, fmt.Sprintf("%s (%s)", p.address, p.reply.From.ID))
		}
		others = true
	}
	if len(words) == 0 && s.unknown != "" {
		return ": no seed has an address"
	}
	if len(words) == 0 {
		return ": no seed has an address; name the addresses of other members as seeds"
	}
	if len(words) > searchedMax {
		words = append(words[:searchedMax], fmt.Sprintf("%d more", len(words)-searchedMax))
	}
	text := ": looked for at " + strings.Join(words, ", ")
	if !others {
		text += "; name the addresses of other members as seeds"
	}
	return text
}

// Addresses returns where a member was found, best first: where it says that the others reach it, if it has answered there, and
// where it has answered. Once this member has its place and a leader, it asks nobody any more, so what it found may be out of date.
// Then there are none: the members tell each other where they are.
func (s *Seeker) Addresses(id raft.NodeID) (addresses []string) {
	if s.settled {
		return nil
	}
	for i := range s.places {
		p := &s.places[i]
		if p.reply == nil || p.reply.From.ID != id || p.reply.From == s.cfg.Self {
			continue
		}
		if p.address == p.reply.Address {
			addresses = slices.Insert(addresses, 0, p.address)
		} else {
			addresses = append(addresses, p.address)
		}
	}
	return addresses
}
