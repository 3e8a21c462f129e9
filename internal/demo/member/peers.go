package member

import (
	"fmt"
	"strings"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
)

// unusedPeers says for which members --peers has other addresses than the configuration in the store; "" if there are none.
// Only the configuration counts once there is one. The addresses in --peers are not tried as well: they may be from before
// a move and belong to another process by now, and hopeless dials would delay the notice that a member has ended. The
// operator knows better.
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

// withPeers is a node that knows no leader. Its status says that --peers has other addresses than its configuration.
type withPeers struct {
	*node.Node
	unused func() string
}

func (w withPeers) Status() node.Status {
	s := w.Node.Status()
	if why := w.unused(); s.Leader == "" && why != "" {
		s.Missing = append(s.Missing, "--peers is not used: "+why)
	}
	return s
}
