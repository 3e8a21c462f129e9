package node

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/coxswain/raft"
)

// ChangeStatus says what a change of the members waits for.
type ChangeStatus struct {
	// Stage is "contacts" while this leader makes contact with members that are to join, which nothing has been changed
	// for yet; then a raft.ChangeStage: "catches up", "joint", "commits" or "transfers".
	Stage   string
	Since   time.Duration // how long it has been in this stage
	Waiting []raft.NodeID // the members that it waits for, if the stage is "contacts" or "catches up"
}

// CatchUp says how far a member without a vote is behind the leader's log. A round ends when it holds what the log held when
// the round began; it may vote once a round takes no longer than an election timeout.
type CatchUp struct {
	Round  int        // the present one, from 1; 0: none has begun
	Target raft.Index // the round ends when MemberStatus.Match reaches it
	Since  time.Duration
	Ready  bool // it could become a voter now
	// Rate is how many entries a second it has acknowledged since the round began, or since a snapshot had arrived; 0: that is
	// not known yet.
	Rate float64
	// Left is how long it takes at this rate until it holds the leader's log, which grows meanwhile, or until a snapshot that it is
	// sent has arrived; at most CatchUpLeftMax. 0: not known or, if Rate is known, never: the log grows at least as fast.
	Left time.Duration
	Idle time.Duration // how long it has made no progress
	// Done and Total are bytes of the snapshot that it is sent; Total is 0 if it is sent none, and -1 if it is not known.
	Done, Total int64
}

const (
	// CatchUpLeftMax is the longest CatchUp.Left: what seems to take longer is not predicted.
	CatchUpLeftMax = 24 * time.Hour
	// rateAfter is how long the acknowledgements of a member are counted before they are called a rate.
	rateAfter = time.Second
)

// predict says how fast a member is, and how long it takes, if it is sent entries. last is the end of the leader's log.
func (c *CatchUp) predict(now raft.Time, p raft.PeerProgress, last raft.Index) {
	took, acknowledged := time.Duration(now-p.CatchUp.FromAt), float64(p.Match-min(p.CatchUp.From, p.Match))
	if p.State != "replicate" || c.Ready || c.Round == 0 || took < rateAfter || acknowledged == 0 {
		return
	}
	c.Rate = acknowledged / took.Seconds()
	missing := float64(last - min(p.Match, last))
	growth := float64(last-min(c.Target, last)) / c.Since.Seconds()
	if c.Rate > growth {
		c.Left = time.Duration(min(missing/(c.Rate-growth), CatchUpLeftMax.Seconds()) * float64(time.Second))
	}
}

// String returns how far the member is, as a part of a sentence.
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

// leftText returns how long something takes, as the end of a sentence; "" if that is not known.
func leftText(left time.Duration) string {
	if left == 0 {
		return ""
	}
	return fmt.Sprintf(", %v left", max(left.Round(time.Second), time.Second))
}

// significant returns how many digits of a rate are worth reading: two, or all before the point.
func significant(rate float64) int { return max(2, 1+int(math.Log10(max(rate, 1)))) }

// DepartingMember is a member that was removed, and that the leader serves until it knows: until it has acknowledged that its
// removal is committed, or ten election timeouts after the commit.
type DepartingMember struct {
	ID          raft.NodeID
	Incarnation raft.Incarnation
	Removal     raft.Index // the entry that has removed it
	// Left is how long it is served at most; 0 until the leader knows that its removal is committed.
	Left      time.Duration
	Connected bool
	Dialed    string // the address of its connection, or where it was dialed last
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

// half is the voters of one half of a configuration.
type half struct {
	name    string // "" unless the configuration is joint
	voters  int
	reached int // the voters that can be reached
	up      int // the voters that count, which may be fewer
}

func (h half) quorum() int { return h.voters/2 + 1 }

// counted returns the number of voters, as a part of a sentence.
func (h half) counted() string { return count(h.voters, "voter") + h.name }

// verb returns what the voters do that are up, as a part of a sentence.
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

// weakerHalf returns the half of the configuration that can lose the fewest voters more. Both must agree while the voters
// change, so the other one matters less.
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

// standing returns what a member is, and what the running change makes of it.
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

// phase returns the voters of both halves of a joint configuration as text; "" for any other one.
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

// changeStatus returns what a change waits for; nil if there is none.
func (n *Node) changeStatus(core raft.CoreStatus) *ChangeStatus {
	if c := core.Change; c != nil {
		return &ChangeStatus{Stage: string(c.Stage), Since: time.Duration(n.now().Mono - c.Since), Waiting: c.Waiting}
	}
	if ids, since := n.invitations.making(); len(ids) > 0 {
		return &ChangeStatus{Stage: "contacts", Since: time.Since(since), Waiting: ids}
	}
	return nil
}

// catchUp returns how far a member without a vote is; nil for one that votes.
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

// needsReplacement reports whether a member will not count again by itself: it has lost what it acknowledged, or its disk.
func needsReplacement(m MemberStatus) bool {
	return m.State == "stale" || m.refusal != nil && m.refusal.OfEmptiedDisk()
}
