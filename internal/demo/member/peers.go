package member

import (
	"fmt"
	"strings"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
	library "github.com/coxswain/raft/member"
	"github.com/coxswain/raft/node"
)

// unusedPeers names the members for which the command line and the configuration in the store have different addresses. It returns
// "" if there are none.
//
// Once there is a configuration, only the configuration counts. The member does not try the addresses in --peers as well.
// They may be older than a move, and may now belong to another process. Hopeless dials would also delay the notice that a
// member has ended. The operator knows which addresses are right.
func (o Options) unusedPeers(peers []raft.Member, now node.Members) string {
	if len(peers) == 0 && joining.CheckAddress(o.RaftAddr) == nil { // then this member alone may have moved
		peers = []raft.Member{{ID: raft.NodeID(o.ID), Address: o.RaftAddr}}
	}
	var differ []string
	for _, p := range peers {
		if m, named := now.Member(p.ID); now.Index > 0 && named && m.Address != p.Address && o.Advertise == "" {
			differ = append(differ, fmt.Sprintf("%s at %s instead of %s", p.ID, m.Address, p.Address))
		}
	}
	if len(differ) == 0 || o.looks() {
		return ""
	}
	return fmt.Sprintf("configuration %d, in the store, counts, and has %s; if these members have moved, start each with --seeds and the present "+
		"--raft-addr of all, in place of --peers", now.Index, strings.Join(differ, ", "))
}

// withPeers is a member whose status may contain one more sentence. If the node knows no leader, this sentence reports that
// the command line and its configuration have different addresses.
type withPeers struct {
	*library.Member
	unused func() string
}

func (w withPeers) Status() node.Status {
	s := w.Member.Status()
	if why := w.unused(); s.Leader == "" && why != "" {
		s.Missing = append(s.Missing, why)
	}
	return s
}
