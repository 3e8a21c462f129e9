package node

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/coxswain/raft"
)

// ChangeStatus says what a change of members waits for.
type ChangeStatus struct {
	// Stage is "contacts" while this leader makes contact with joining members; nothing has been changed then. Later it
	// is a raft.ChangeStage: "catches up", "joint", "commits" or "transfers".
	Stage   string
	Since   time.Duration // time in this stage
	Waiting []raft.NodeID // members that the stage "contacts" or "catches up" waits for
}

// CatchUp says how much of the leader's log a member without a vote still lacks. A round begins with the log that the leader
// then has, and ends when the member holds all of it. The member may vote once a round takes no longer than an election
// timeout.
type CatchUp struct {
	Round  int           // present round, from 1; 0: none has begun
	Target raft.Index    // the round ends when MemberStatus.Match reaches it
	Since  time.Duration // time since the round began
	Ready  bool          // it could become a voter now
	// Rate is the number of entries that the member has acknowledged per second, since the round began or since a snapshot
	// arrived. It is 0 if it is not known yet.
	Rate float64
	// Left is the predicted time until the member holds the leader's log, which grows meanwhile. If the leader sends the
	// member a snapshot, Left is the predicted time until the snapshot has arrived. It is at most 24 h. It is 0 if it is not
	// known. If Left is 0 but Rate is not 0, the member will never catch up at this rate, because the log grows at least as
	// fast.
	Left time.Duration
	Idle time.Duration // time without progress
	// Done and Total are bytes of the snapshot that the leader sends to the member. Total is 0 if the leader sends no
	// snapshot, and -1 if the size is not known.
	Done, Total int64
}

const (
	// leftMax is the longest time that CatchUp.Left and Transfer.Left predict.
	leftMax = 24 * time.Hour
	// rateAfter is the minimum time of measured progress before a rate is computed from it.
	rateAfter = time.Second
)

// predict fills in Rate and Left if the leader sends entries to the member. last is the end of the leader's log.
func (c *CatchUp) predict(now raft.Time, p raft.PeerProgress, last raft.Index) {
	took, acknowledged := time.Duration(now-p.CatchUp.FromAt), float64(p.Match-min(p.CatchUp.From, p.Match))
	if p.State != "replicate" || c.Ready || c.Round == 0 || took < rateAfter || acknowledged == 0 {
		return
	}
	c.Rate = acknowledged / took.Seconds()
	missing := float64(last - min(p.Match, last))
	growth := float64(last-min(c.Target, last)) / c.Since.Seconds()
	if c.Rate > growth {
		c.Left = time.Duration(min(missing/(c.Rate-growth), leftMax.Seconds()) * float64(time.Second))
	}
}

// String returns the member's progress, as a part of a sentence.
func (c *CatchUp) String() string {
	switch {
	case c.Total > 0:
		return fmt.Sprintf("%d %% of %d KiB", 100*min(c.Done, c.Total)/c.Total, c.Total>>10) + leftText(c.Left)
	case c.Total < 0:
		return fmt.Sprintf("%d KiB so far", c.Done>>10)
	case c.Ready:
		return "it has caught up"
	}
	text := fmt.Sprintf("round %d, up to entry %d", c.Round, c.Target)
	if c.Rate > 0 {
		text += fmt.Sprintf(", %.*g entries/s", significant(c.Rate), c.Rate)
	}
	return text + leftText(c.Left)
}

// leftText returns the time left, as the end of a sentence. It returns "" if the time is not known.
func leftText(left time.Duration) string {
	if left == 0 {
		return ""
	}
	return fmt.Sprintf(", %v left", max(left.Round(time.Second), time.Second))
}

// significant returns the number of significant digits to show for a rate: two, or all digits before the decimal point if
// they are more.
func significant(rate float64) int { return max(2, 1+int(math.Log10(max(rate, 1)))) }

// DepartingMember is a removed member that the leader still serves, so that it learns of its removal. It is served until
// it has acknowledged that its removal is committed, but at most ten election timeouts after the commit.
type DepartingMember struct {
	ID          raft.NodeID
	Incarnation raft.Incarnation
	Removal     raft.Index // entry that removed it
	// Left is the maximum time for which the leader will still serve the member. It is 0 while the leader does not know that
	// the removal is committed.
	Left      time.Duration
	Connected bool
	Dialed    string // address of its connection, or the address dialed last
}

// departing returns the removed members that a leader still serves.
func (n *Node) departing(core raft.CoreStatus) (all []DepartingMember) {
	for _, p := range core.Peers {
		if !p.Departing {
			continue
		}
		peer := n.connection(raft.Peer{ID: p.ID, Incarnation: p.Incarnation})
		d := DepartingMember{ID: p.ID, Incarnation: p.Incarnation, Removal: p.Removal, Connected: peer.Connected, Dialed: peer.Address}
		if p.ServedUntil > 0 {
			d.Left = max(time.Duration(p.ServedUntil-n.now().Mono), 1)
		}
		all = append(all, d)
	}
	return all
}

// half counts the voters of one half of a configuration.
type half struct {
	name    string // "" unless the configuration is joint
	voters  int
	reached int // voters that can be reached
	up      int // voters that count towards a quorum; not all that can be reached do
}

func (h half) quorum() int { return h.voters/2 + 1 }

// counted returns the number of voters, as a part of a sentence.
func (h half) counted() string { return count(h.voters, "voter") + h.name }

// verb returns the verb that goes with the number of voters that are up, as a part of a sentence.
func (h half) verb() string {
	switch {
	case h.up == h.reached:
		return "can be reached"
	case h.up == 1 && h.voters == 1:
		return "counts"
	}
	return "count"
}

func (h *half) add(m *MemberStatus) {
	h.voters++
	if !m.away {
		h.reached++
	}
	if m.excluded == "" {
		h.up++
	}
}

// weakerHalf returns the half of the configuration that can lose fewer voters. While the voters change, both halves must
// agree, so this half decides how many failures the cluster survives.
func weakerHalf(s *Status) half {
	var incoming, outgoing half
	for i := range s.Members {
		m := &s.Members[i]
		if m.Kind == raft.Voter {
			incoming.add(m)
		}
		if m.outgoing {
			outgoing.add(m)
		}
	}
	if outgoing.voters == 0 {
		return incoming
	}
	incoming.name, outgoing.name = " of the new configuration", " of the configuration that is being left"
	if outgoing.up-outgoing.quorum() < incoming.up-incoming.quorum() {
		return outgoing
	}
	return incoming
}

// standing returns MemberStatus.Standing of a member.
func standing(c raft.Configuration, m raft.Member) string {
	votes := c.VotesIn(m.Peer())
	switch {
	case m.Next == raft.NextVoter:
		return "joins"
	case c.Joint() && votes == raft.IncomingHalf:
		return "enters"
	case c.Joint() && votes == raft.OutgoingHalf:
		return "leaves"
	case m.Kind == raft.Voter:
		return "voter"
	}
	return "learner"
}

// phase returns the voters of both halves of a joint configuration as text, or "" if the configuration is not joint.
func phase(c raft.Configuration) string {
	if !c.Joint() {
		return ""
	}
	var before, after []string
	for _, p := range c.Outgoing {
		before = append(before, string(p.ID))
	}
	for _, m := range c.Voters() {
		after = append(after, string(m.ID))
	}
	return "joint: " + strings.Join(before, " ") + " → " + strings.Join(after, " ")
}

// changeStatus returns what a change of members waits for, or nil if no change is running.
func (n *Node) changeStatus(core raft.CoreStatus) *ChangeStatus {
	if c := core.Change; c != nil {
		return &ChangeStatus{Stage: string(c.Stage), Since: time.Duration(n.now().Mono - c.Since), Waiting: c.Waiting}
	}
	if ids, since := n.invitations.making(); len(ids) > 0 {
		return &ChangeStatus{Stage: "contacts", Since: time.Since(since), Waiting: ids}
	}
	return nil
}

// catchUp returns the progress of a member without a vote. It returns nil if the member votes or departs.
func (n *Node) catchUp(p raft.PeerProgress, last raft.Index, s SnapshotStatus) *CatchUp {
	if p.Votes != 0 || p.Departing {
		return nil
	}
	now := n.now().Mono
	c := &CatchUp{Round: p.CatchUp.Round, Target: p.CatchUp.Target, Ready: p.CatchUp.Ready, Idle: time.Duration(now - p.CatchUp.MovedAt)}
	if c.Round > 0 {
		c.Since = time.Duration(now - p.CatchUp.Since)
	}
	c.predict(now, p, last)
	if t := s.Sending; t != nil && t.Peer == p.ID && p.State == "snapshot" {
		c.Done, c.Total, c.Left = t.Done, t.Total, t.Left
	}
	return c
}

// needsReplacement reports whether a member will never count again by itself, because it has lost its disk or entries that it
// acknowledged.
func needsReplacement(m MemberStatus) bool {
	return m.State == "stale" || m.refusal != nil && m.refusal.OfEmptiedDisk()
}
