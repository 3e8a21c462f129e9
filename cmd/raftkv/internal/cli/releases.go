package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
)

// runs describes the release that a member runs, as others see it.
type runs struct {
	protocol uint16
	release  string
}

// String returns the release with its protocol version.
func (r runs) String() string {
	switch {
	case r.protocol == 0:
		return "not known"
	case r.release == "":
		return fmt.Sprintf("protocol %d", r.protocol)
	}
	return fmt.Sprintf("%s (protocol %d)", r.release, r.protocol)
}

// releases lists the release of each member, the newest protocol first: "releases: n1 n2 v0.2.0 (protocol 3); n3 protocol 2".
// It is "" if no server reports any.
func releases(members []admin.ClusterMember) string {
	of := map[runs][]string{}
	for _, m := range members {
		r := runs{m.Protocol, m.Release}
		of[r] = append(of[r], m.ID)
	}
	var all []runs
	for r := range of {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b runs) int {
		return cmp.Or(cmp.Compare(b.protocol, a.protocol), strings.Compare(b.release, a.release))
	})
	if len(all) == 0 || all[0].protocol == 0 {
		return ""
	}
	var parts []string
	for _, r := range all {
		parts = append(parts, fmt.Sprintf("%s %v", api.List(of[r]), r))
	}
	return "releases: " + strings.Join(parts, "; ")
}

// mixture lists the releases in use, as the first server that sees more than one release reports them. It returns "" if no
// server sees more than one release.
func mixture(servers ...*api.Status) string {
	for _, server := range servers {
		var all []admin.ClusterMember
		seen := map[runs]bool{}
		for _, m := range server.Members {
			all = append(all, admin.ClusterMember{ID: m.ID, Protocol: m.Protocol, Release: m.Release})
			seen[runs{m.Protocol, m.Release}] = m.Protocol != 0
		}
		if delete(seen, runs{}); len(seen) > 1 {
			return releases(all)
		}
	}
	return ""
}
