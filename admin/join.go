package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/coxswain/raft/node"
)

// joiner joins the findings of several members into one list.
type joiner struct {
	servers []Server  // of one cluster
	views   []*Status // the best informed one first
	found   []Diagnosed
}

// join makes a diagnosis of the answers.
func join(servers []Server) *Diagnosis {
	d := &Diagnosis{Servers: servers, Findings: []Diagnosed{}, Links: []Link{}}
	j := &joiner{servers: servers}
	j.joinClusters()
	best := bestOf(j.servers)
	for _, s := range j.servers {
		if s.Status != nil {
			j.views = append(j.views, s.Status)
		}
	}
	slices.SortStableFunc(j.views, func(a, b *Status) int { return cmp.Compare(b2i(b == best), b2i(a == best)) })
	j.joinMembers()
	j.joinLinks()
	j.joinRest()
	j.joinSilent()
	d.Links = j.links()
	d.Findings = append(d.Findings, j.sorted()...)
	d.Verdict = Healthy
	for i, f := range d.Findings {
		if i == 0 {
			d.Verdict = f.Verdict
		}
		if d.Severity == "" || urgency(f.Severity) < urgency(d.Severity) {
			d.Severity = f.Severity
		}
	}
	return d
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func urgency(s node.Severity) int {
	return slices.Index([]node.Severity{node.Outage, node.Degraded, node.Notice}, s)
}

// joinClusters finds servers of different clusters. The other findings are about the cluster of the first server that has one.
func (j *joiner) joinClusters() {
	var ids, says []string
	var ours []Server
	for _, s := range j.servers {
		if s.Status != nil && s.Status.Cluster != "" {
			says = append(says, fmt.Sprintf("%s at %s belongs to the cluster %s", s.Status.ID, s.URL, s.Status.Cluster))
			if !slices.Contains(ids, s.Status.Cluster) {
				ids = append(ids, s.Status.Cluster)
			}
			if s.Status.Cluster != ids[0] {
				continue
			}
		}
		ours = append(ours, s)
	}
	if j.servers = ours; len(ids) > 1 {
		j.found = append(j.found, diagnosed(Finding{Verdict: node.VerdictTwoClusters,
			Says: fmt.Sprintf("the servers that were asked belong to %d clusters", len(ids))}, says...))
	}
}

// trusted reports whether a member's word about others counts. A member whose disk was emptied, that has ended, or that does
// not know the cluster that others know, knows nothing.
func (j *joiner) trusted(s *Status) bool {
	known := slices.ContainsFunc(j.views, func(s *Status) bool { return s.Bootstrapped })
	return !s.Wiped && s.Error == "" && (s.Bootstrapped || !known)
}

// findingsOf returns the findings of a member. Servers before v0.9.0 report only what is wrong with members.
func findingsOf(s *Status) []Finding {
	if s.Findings != nil {
		return s.Findings
	}
	var all []Finding
	for _, m := range s.Members {
		if m.Verdict != "" {
			all = append(all, Finding{Verdict: m.Verdict, Member: m.ID, Says: m.Problem})
		}
	}
	if s.SlowElection != "" {
		all = append(all, Finding{Verdict: node.VerdictTimeout, Says: s.SlowElection})
	}
	return all
}

func counts(verdict string) bool {
	v, known := node.VerdictNamed(verdict)
	return known && v.Counts
}

func isLink(verdict string) bool {
	return verdict == node.VerdictNotConnected || verdict == node.VerdictNotHeard
}

// joinMembers finds one reason for each member that does not count: what it says itself, or else what the best informed other
// member says. What the others say is evidence. A member that answers is not down: joinLinks finds what is wrong.
func (j *joiner) joinMembers() {
	said := map[string]bool{}
	for _, own := range j.views {
		for _, f := range findingsOf(own) {
			if f.Member == own.ID && !counts(f.Verdict) && !said[f.Member] {
				said[f.Member] = true
				j.found = append(j.found, diagnosed(f, j.others(f)...))
			}
		}
	}
	for _, by := range j.views {
		for _, f := range findingsOf(by) {
			if f.Member == "" || f.Member == by.ID || said[f.Member] || counts(f.Verdict) || !j.trusted(by) ||
				isLink(f.Verdict) && j.view(f.Member) != nil {
				continue
			}
			said[f.Member] = true
			j.found = append(j.found, diagnosed(f, j.others(f)...))
		}
	}
}

// others returns what else is said about a member, or about the cluster, and who says it.
func (j *joiner) others(f Finding) (evidence []string) {
	for _, by := range j.views {
		for _, other := range findingsOf(by) {
			if other.Member == f.Member && counts(other.Verdict) == counts(f.Verdict) && (other.Verdict == f.Verdict || f.Member != "" && !counts(f.Verdict)) {
				about := ""
				if f.Member != "" && f.Member != by.ID {
					about = " of " + f.Member
				}
				evidence = append(evidence, fmt.Sprintf("%s says%s: %s", by.ID, about, other.Says))
			}
		}
	}
	return evidence
}

// view returns what a member says; nil if it did not answer.
func (j *joiner) view(id string) *Status {
	for _, s := range j.views {
		if s.ID == id {
			return s
		}
	}
	return nil
}

func (j *joiner) has(member string) bool {
	return slices.ContainsFunc(j.found, func(d Diagnosed) bool { return d.Member == member && !counts(d.Verdict) })
}

// joinLinks finds members that answer, but do not hear each other. Of two members, it names the one with more broken links, or
// the one that does not lead.
func (j *joiner) joinLinks() {
	cut := map[string][]string{} // the evidence, by member
	peers := map[string][]string{}
	for _, by := range j.views {
		for _, f := range findingsOf(by) {
			if !j.trusted(by) || !isLink(f.Verdict) || j.has(f.Member) || j.has(by.ID) || j.view(f.Member) == nil {
				continue
			}
			for _, pair := range [][2]string{{by.ID, f.Member}, {f.Member, by.ID}} {
				cut[pair[0]] = append(cut[pair[0]], fmt.Sprintf("%s says of %s: %s", by.ID, f.Member, f.Says))
				if !slices.Contains(peers[pair[0]], pair[1]) {
					peers[pair[0]] = append(peers[pair[0]], pair[1])
				}
			}
		}
	}
	for len(peers) > 0 {
		var named string
		for _, s := range j.views { // the best informed one comes last among equals
			if n := len(peers[s.ID]); n > 0 && (named == "" || n >= len(peers[named])) {
				named = s.ID
			}
		}
		if named == "" {
			return
		}
		slices.Sort(peers[named])
		j.found = append(j.found, diagnosed(Finding{Verdict: node.VerdictLinkCut, Member: named,
			Says: fmt.Sprintf("%s and %s run, and do not reach each other", named, strings.Join(peers[named], ", "))}, cut[named]...))
		for _, other := range peers[named] {
			if peers[other] = slices.DeleteFunc(peers[other], func(id string) bool { return id == named }); len(peers[other]) == 0 {
				delete(peers, other)
			}
		}
		delete(peers, named)
	}
}

// joinRest adds what is wrong with the cluster, and with members that count nevertheless. If the leader answers, the others'
// word that there is none says only that they do not hear it.
func (j *joiner) joinRest() {
	if len(j.views) == 0 {
		return
	}
	best := j.views[0]
	works := best.Role == "leader" && j.trusted(best) && !slices.ContainsFunc(findingsOf(best), func(f Finding) bool { return f.Verdict == node.VerdictNoQuorum })
	for _, by := range j.views {
		for _, f := range findingsOf(by) {
			effect := f.Verdict == node.VerdictNoQuorum || f.Verdict == node.VerdictNoLeader || f.Verdict == node.VerdictNotBegun
			asLeader := f.Member == by.ID || f.Member == "" || by == best // of two members that differ, the leader names one
			if !counts(f.Verdict) || works && effect || effect && j.trusted(best) && !j.trusted(by) || !asLeader ||
				slices.ContainsFunc(j.found, func(d Diagnosed) bool { return d.Verdict == f.Verdict && d.Member == f.Member }) {
				continue
			}
			j.found = append(j.found, diagnosed(f, j.others(f)...))
		}
	}
}

// joinSilent adds the servers that do not answer.
func (j *joiner) joinSilent() {
	for _, s := range j.servers {
		if s.Status != nil {
			continue
		}
		member := ""
		for _, by := range j.views {
			for _, m := range by.Members {
				if strings.TrimSuffix(m.URL, "/") == s.URL {
					member = m.ID
				}
			}
		}
		says := fmt.Sprintf("%s does not answer: %s", s.URL, s.Error)
		if i := slices.IndexFunc(j.found, func(d Diagnosed) bool { return member != "" && d.Member == member && !counts(d.Verdict) }); i >= 0 {
			j.found[i].Evidence = append(j.found[i].Evidence, says)
			continue
		}
		f := diagnosed(Finding{Verdict: node.VerdictNoAnswer, Member: member, Says: says})
		if len(j.views) == 0 {
			f.Severity = node.Outage
			f.Next = "raftkv doctor --server URL1,URL2,URL3: ask with the URLs of the other members, too; then look whether the processes run"
		}
		j.found = append(j.found, f)
	}
}

// links returns who hears whom, of those that answer.
func (j *joiner) links() (all []Link) {
	all = []Link{}
	for _, by := range j.views {
		for _, m := range by.Members {
			if m.ID != by.ID {
				all = append(all, Link{Member: by.ID, Hears: m.ID, Works: m.Connected && m.Verdict != node.VerdictNotHeard, Says: m.ConnectionErr})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Link) int { return cmp.Or(cmp.Compare(a.Member, b.Member), cmp.Compare(a.Hears, b.Hears)) })
	for i := range all {
		if all[i].Works {
			all[i].Says = "" // why it last broke
		}
	}
	return all
}

// needsLeader reports whether the remedy is a change of the members, which is not made without a leader.
func needsLeader(d Diagnosed) bool { return strings.Contains(d.Next, "raftkv members ") }

// sorted returns the findings, the one to begin with first: the worst ones, and among these causes before effects. Why a
// cluster does not serve comes before the fact, unless the remedy needs a leader: then the cluster must serve again first. Of one
// verdict, the member of whom the most others say it comes first: if one of three certificates is wrong, its owner refuses the
// other two as well.
func (j *joiner) sorted() []Diagnosed {
	table := node.Verdicts()
	place := func(d Diagnosed) int {
		if i := slices.IndexFunc(table, func(v node.Verdict) bool { return v.Name == d.Verdict }); i >= 0 {
			return i
		}
		return len(table)
	}
	explains := j.explains()
	rank := func(d Diagnosed) int {
		if explains(d) && !needsLeader(d) {
			return urgency(node.Outage)
		}
		return urgency(d.Severity)
	}
	slices.SortStableFunc(j.found, func(a, b Diagnosed) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(place(a), place(b)),
			cmp.Compare(len(b.Evidence), len(a.Evidence)), cmp.Compare(a.Member, b.Member))
	})
	return j.found
}

// explains returns a function that reports whether a finding is why the cluster does not serve. Before it has begun, that is what
// is known about a member. Without a leader, that is
// anything that is wrong with a member. Without a quorum, it is what is known about the members that do not count, if a majority
// works once that is repaired. Of members that are only silent, nothing is known.
func (j *joiner) explains() func(Diagnosed) bool {
	is := func(name string) bool {
		return slices.ContainsFunc(j.found, func(d Diagnosed) bool { return d.Verdict == name })
	}
	degraded := func(d Diagnosed) bool { return d.Severity == node.Degraded }
	known := func(d Diagnosed) bool { return degraded(d) && !counts(d.Verdict) && !isLink(d.Verdict) }
	switch {
	case is(node.VerdictNotBegun):
		return known
	case is(node.VerdictNoQuorum):
		voters, up := 0, 0
		for _, m := range j.views[0].Members {
			if m.Kind != "voter" {
				continue
			}
			voters++
			unknown := slices.ContainsFunc(j.found, func(d Diagnosed) bool { return d.Member == m.ID && !counts(d.Verdict) && !known(d) })
			if up++; unknown {
				up--
			}
		}
		if up >= voters/2+1 {
			return known
		}
	case is(node.VerdictNoLeader):
		return degraded
	}
	return func(Diagnosed) bool { return false }
}
