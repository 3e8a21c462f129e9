package api

import "strings"

// Members is the body of the answer to GET /members: the configuration in force, as the answering member knows it.
type Members struct {
	ID        string `json:"id"` // of the member that answers
	Cluster   string `json:"cluster_name"`
	ClusterID string `json:"cluster_id,omitempty"` // of the cluster itself, since two may have one name; "" while it knows none
	Term      uint64 `json:"term"`                 // its term
	Leader    string `json:"leader,omitempty"`     // whom it knows as the leader
	Tolerance string `json:"tolerance,omitempty"`  // how many more failures the cluster survives
	Index     uint64 `json:"index"`                // of the entry of the configuration; 0: no cluster is known here yet
	Committed bool   `json:"committed"`
	Level     uint64 `json:"level"` // the cluster's feature level: 1 once its members have been changed
	// Phase says in words which voters are replaced by which while both must agree: "joint: n1 n2 n3 → n1 n2 n4".
	Phase   string          `json:"phase,omitempty"`
	Members []ClusterMember `json:"members"`
	Removed []Removed       `json:"removed,omitempty"` // the latest removals, oldest first
	// Departing are removed members that the leader still serves; empty if the answering member does not lead.
	Departing []Departing `json:"departing,omitempty"`
	Change    *Changing   `json:"change,omitempty"` // nil if no change is running
}

// ClusterMember is one member of a configuration.
type ClusterMember struct {
	ID          string `json:"id"`
	Incarnation string `json:"incarnation"`
	Address     string `json:"address"`
	URL         string `json:"url,omitempty"`
	Kind        string `json:"kind"` // voter, learner, or leaving: it votes until the running change is done
	// Standing is what the running change makes of the member: voter and learner stay as they are; one that joins becomes a
	// voter once it has caught up; one that enters or leaves votes in the new or in the old half of a joint configuration;
	// one that will be demoted or removed votes until the members that join have caught up.
	Standing string `json:"standing"`
	// CatchUp says how far a member is that does not vote yet; nil if the answering member does not lead.
	CatchUp *CatchUp `json:"catch_up,omitempty"`
	// LastContactMS is how long the answering member has not heard it; -1: never. It does not hear itself.
	LastContactMS float64 `json:"last_contact_ms"`
	Problem       string  `json:"problem,omitempty"` // why it does not count or does not serve; empty if it does
	// Protocol is the protocol version of its connection, or of the last one; 0: not known.
	Protocol uint16 `json:"protocol,omitempty"`
	Release  string `json:"release,omitempty"` // as the member says itself; empty if it does not, or runs v0.1.0
	// Replace says that it will not count again by itself: its disk was emptied, or came back older.
	Replace bool `json:"replace,omitempty"`
}

// The standings.
const (
	StandingVoter   = "voter"
	StandingLearner = "learner"
	StandingJoins   = "joins"
	StandingEnters  = "enters"
	StandingLeaves  = "leaves"
	StandingDemoted = "to be demoted"
	StandingRemoved = "to be removed"
)

// CatchUp says how far a member is behind the leader.
type CatchUp struct {
	Match    uint64    `json:"match"`              // it holds the log up to this entry
	Last     uint64    `json:"last"`               // where the leader's log ends
	Snapshot *Transfer `json:"snapshot,omitempty"` // that it is sent
	// Rate and LeftMS are how fast it acknowledges entries, and how long that takes until it holds the leader's log. Rate is left
	// out until it is known; LeftMS, too, and for as long as the log grows as fast.
	Rate   float64 `json:"entries_per_second,omitempty"`
	LeftMS float64 `json:"left_ms,omitempty"`
	IdleMS float64 `json:"idle_ms,omitempty"` // how long it has made no progress, unless it could vote now
}

// Departing is a removed member that the leader serves until it knows that.
type Departing struct {
	ID          string  `json:"id"`
	Incarnation string  `json:"incarnation"`
	Index       uint64  `json:"index"`             // of the entry that has removed it
	LeftMS      float64 `json:"left_ms,omitempty"` // how long it is served at most; left out until its removal is known to be committed
	Address     string  `json:"address,omitempty"` // of its connection, or where it was dialed last
	Connected   bool    `json:"connected"`
}

// Removed names an incarnation of a member that was removed, and the entry that removed it.
type Removed struct {
	ID          string `json:"id"`
	Incarnation string `json:"incarnation"`
	Index       uint64 `json:"index"`
}

// Changing describes a change that is running.
type Changing struct {
	Stage   string   `json:"stage"`
	Waiting []string `json:"waiting,omitempty"` // the members that must catch up first
}

// The stages of a change.
const (
	StageCommits   = "commits"    // its entry is not committed yet
	StageCatchesUp = "catches up" // members that are to vote have to catch up first
	StageJoint     = "joint"      // the former and the new voters must agree
)

// Leads reports whether the answering member leads.
func (m Members) Leads() bool { return m.Index > 0 && m.Leader == m.ID }

// Voters returns the ids of the members that vote, of a joint configuration those that will.
func (m Members) Voters() (ids []string) {
	for _, member := range m.Members {
		if member.Kind == StandingVoter {
			ids = append(ids, member.ID)
		}
	}
	return ids
}

// Of returns the members with that id: two while one takes the place of the other.
func (m Members) Of(id string) (of []ClusterMember) {
	for _, member := range m.Members {
		if member.ID == id {
			of = append(of, member)
		}
	}
	return of
}

// Member returns the member with that id and incarnation; the zero value if there is none.
func (m Members) Member(p Peer) ClusterMember {
	for _, member := range m.Of(p.ID) {
		if member.Incarnation == p.Incarnation {
			return member
		}
	}
	return ClusterMember{}
}

// Change is the body of POST /members: a raft.Change. All of it takes effect together, or nothing does.
type Change struct {
	Add      []NewMember   `json:"add,omitempty"`
	Promote  []Peer        `json:"promote,omitempty"`
	Demote   []Peer        `json:"demote,omitempty"`
	Remove   []Peer        `json:"remove,omitempty"`
	Replace  []Replacement `json:"replace,omitempty"`
	Update   []Update      `json:"update,omitempty"`
	Cancel   bool          `json:"cancel,omitempty"`
	Despite  []string      `json:"despite,omitempty"`
	Patience string        `json:"patience,omitempty"` // with its unit, as in 1m30s
	IfIndex  uint64        `json:"if_index,omitempty"` // only if the configuration in force has this index
}

// NewMember is a member that is to join. Of a Replacement, its address and URL may be left out if a member has its id
// already, and also its id if that is the member that is replaced.
type NewMember struct {
	ID      string `json:"id,omitempty"`
	Address string `json:"address,omitempty"`
	URL     string `json:"url,omitempty"`
	Kind    string `json:"kind,omitempty"` // voter, the default, or learner; of a Replacement the role is that of the old one
}

// Peer names a member, and one of its incarnations if two are members.
type Peer struct {
	ID          string `json:"id"`
	Incarnation string `json:"incarnation,omitempty"`
}

// Replacement lets New take the role of Old.
type Replacement struct {
	Old Peer      `json:"old"`
	New NewMember `json:"new"`
}

// Update changes what is given; nil leaves it as it is.
type Update struct {
	Peer
	Address *string `json:"address,omitempty"`
	URL     *string `json:"url,omitempty"`
}

// Changed is the body of the answer to POST /members.
type Changed struct {
	// Done is false in an answer with status 202: the change goes on, and GET /members shows how far it is.
	Done bool `json:"done"`
	Members
}

// List writes ids with spaces between them.
func List(ids []string) string { return strings.Join(ids, " ") }
