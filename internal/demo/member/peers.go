package member

import (
	"fmt"
	"strings"

	"github.com/coxswain/raft"
	library "github.com/coxswain/raft/member"
	"github.com/coxswain/raft/node"
)

// unusedPeers names the members for which --peers and the configuration in the store have different addresses. It returns ""
// if there are none.
//
// Once there is a configuration, only the configuration counts. The member does not try the addresses in --peers as well.
// They may be older than a move, and may now belong to another process. Hopeless dials would also delay the notice that a
// member has ended. The operator knows which addresses are right.
func (o Options) unusedPeers(peers []raft.Member, now node.Members) string {
	via, _ := o.via() // Validate has checked it
	var differ, flags []string
	for _, p := range peers {
		m, named := now.Member(p.ID)
		if now.Index == 0 || !named || m.Address == p.Address {
			continue
		}
		if via[string(p.ID)] == "" && via[m.Address] == "" {
			differ = append(differ, fmt.Sprintf("%s at %s instead of %s", p.ID, m.Address, p.Address))
		}
		flags = append(flags, fmt.Sprintf("%s=%s", p.ID, p.Address))
	}
	if len(differ) == 0 {
		return ""
	}
	return fmt.Sprintf("configuration %d, in the store, has %s; if these members have all moved, start each with --via %s, "+
		"until raftkv members shows them there", now.Index, strings.Join(differ, ", "), strings.Join(flags, ","))
}

// withPeers is a member whose status may contain one more sentence. If the node knows no leader, this sentence reports that
// --peers and its configuration have different addresses.
type withPeers struct {
	*library.Member
	unused func() string
}

func (w withPeers) Status() node.Status {
	s := w.Member.Status()
	if why := w.unused(); s.Leader == "" && why != "" {
		s.Missing = append(s.Missing, "--peers is not used: "+why)
	}
	return s
}
