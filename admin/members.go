package admin

// Members is the body of the answer to GET /members: the configuration in force, as the answering member knows it.
type Members struct {
	ID        string `json:"id"` // the answering member
	Cluster   string `json:"cluster_name"`
	ClusterID string `json:"cluster_id,omitempty"` // identifies the cluster, because two may have the same name; "" before the bootstrap
	Term      uint64 `json:"term"`                 // term of the answering member
	Leader    string `json:"leader,omitempty"`     // the leader, as it knows
	Tolerance string `json:"tolerance,omitempty"`  // how many more failures the cluster survives
	Index     uint64 `json:"index"`                // index of the configuration's entry; 0: the member knows no cluster yet
	Committed bool   `json:"committed"`
	Level     uint64 `json:"level"` // the cluster's feature level, see docs/versions.md
	// AppVersionMin is the lowest version of the application that a member may run. 0 means that there is none.
	AppVersionMin uint64 `json:"app_version_min,omitempty"`
	// LeaseDuration is how long leases last, as 100ms. It is absent if there are none.
	LeaseDuration string `json:"lease_duration,omitempty"`
	// Phase describes a joint configuration, with the former and the new voters: "joint: n1 n2 n3 → n1 n2 n4".
	Phase   string          `json:"phase,omitempty"`
	Members []ClusterMember `json:"members"`
	Removed []Removed       `json:"removed,omitempty"` // the latest removals, oldest first
	// Departing lists removed members that the leader still informs; empty if the answering member does not lead.
	Departing []Departing `json:"departing,omitempty"`
	Change    *Changing   `json:"change,omitempty"` // nil if no change is running
}

// ClusterMember is one member of a configuration.
type ClusterMember struct {
	ID          string `json:"id"`
	Incarnation string `json:"incarnation"`
	Address     string `json:"address"`
	URL         string `json:"url,omitempty"`
	Kind        string `json:"kind"` // voter, learner, or leaving, which votes until the running change is done
	// Priority is the priority of a voter, from 0, a standby, to 100. It is nil for a learner, and in an answer of an earlier
	// release.
	Priority *int `json:"priority,omitempty"`
	// Standing is the member's role in the running change. "voter" and "learner" do not change. A member that joins becomes a
	// voter once it has caught up. A member that enters or leaves votes in the new or in the old half of a joint configuration.
	// A member that will be demoted or removed votes until the joining members have caught up.
	Standing string `json:"standing"`
	// CatchUp is the progress of a member that does not vote yet; nil if the answering member does not lead.
	CatchUp *CatchUp `json:"catch_up,omitempty"`
	// LastContactMS is the time since the answering member last heard this member. -1 means never, as for the answering
	// member itself.
	LastContactMS float64 `json:"last_contact_ms"`
	Problem       string  `json:"problem,omitempty"` // why it does not count or does not serve; empty if there is no problem
	// Protocol is the protocol version of the present or last connection to this member. 0 means not known.
	Protocol uint16 `json:"protocol,omitempty"`
	// AppVersion is the version of the application that the member's program has announced last. 0 means none, or not known.
	AppVersion uint64 `json:"app_version,omitempty"`
	Release    string `json:"release,omitempty"` // as the member itself reports; empty if it does not, as v0.1.0
	// Replace is true if the member does not count again before its replacement. The reason is that its disk was emptied, or
	// is an older image.
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

// CatchUp is the progress of a member that catches up with the leader.
type CatchUp struct {
	Match    uint64    `json:"match"`              // last entry that it holds
	Last     uint64    `json:"last"`               // last entry of the leader
	Snapshot *Transfer `json:"snapshot,omitempty"` // the snapshot that is sent to it, if any
	// Rate is the number of entries that the member acknowledges per second. LeftMS is the time until the member holds the
	// leader's log at this rate. Both are absent until they are known. LeftMS is also absent while the log grows as fast as
	// the member catches up.
	Rate   float64 `json:"entries_per_second,omitempty"`
	LeftMS float64 `json:"left_ms,omitempty"`
	IdleMS float64 `json:"idle_ms,omitempty"` // time without progress; absent if it could vote now
}

// Departing is a removed member. The leader serves it until the member knows of its removal.
type Departing struct {
	ID          string  `json:"id"`
	Incarnation string  `json:"incarnation"`
	Index       uint64  `json:"index"`             // index of the entry that removed it
	LeftMS      float64 `json:"left_ms,omitempty"` // maximum time for which it is still served; absent until its removal is known to be committed
	Address     string  `json:"address,omitempty"` // address of its connection, or where it was dialed last
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
	Waiting []string `json:"waiting,omitempty"` // members that must catch up first
}

// The stages of a change.
const (
	StageCommits   = "commits"    // its entry is not committed yet
	StageCatchesUp = "catches up" // new voters must catch up first
	StageJoint     = "joint"      // the former and the new voters must agree
)

// Leads reports whether the answering member leads.
func (m Members) Leads() bool { return m.Index > 0 && m.Leader == m.ID }

// Voters returns the ids of the voters. In a joint configuration, it returns the ids of the new voters.
func (m Members) Voters() (ids []string) {
	for _, member := range m.Members {
		if member.Kind == StandingVoter {
			ids = append(ids, member.ID)
		}
	}
	return ids
}

// Of returns the members with this id. There are two while one of them replaces the other.
func (m Members) Of(id string) (of []ClusterMember) {
	for _, member := range m.Members {
		if member.ID == id {
			of = append(of, member)
		}
	}
	return of
}

// Member returns the member with this id and incarnation. It returns the zero value if there is none.
func (m Members) Member(p Peer) ClusterMember {
	for _, member := range m.Of(p.ID) {
		if member.Incarnation == p.Incarnation {
			return member
		}
	}
	return ClusterMember{}
}

// Change is the body of POST /members. It describes a raft.Change, which takes effect as a whole or not at all.
type Change struct {
	Add     []NewMember   `json:"add,omitempty"`
	Promote []Peer        `json:"promote,omitempty"`
	Demote  []Peer        `json:"demote,omitempty"`
	Remove  []Peer        `json:"remove,omitempty"`
	Replace []Replacement `json:"replace,omitempty"`
	Update  []Update      `json:"update,omitempty"`
	Cancel  bool          `json:"cancel,omitempty"`
	// LeaseDuration is how long leases last from now on, with its unit, as in 100ms; 0s: there are none. Absent: as before.
	LeaseDuration string   `json:"lease_duration,omitempty"`
	Despite       []string `json:"despite,omitempty"`
	Patience      string   `json:"patience,omitempty"` // with its unit, as in 1m30s
	IfIndex       uint64   `json:"if_index,omitempty"` // only if the configuration in force has this index
}

// NewMember is a member that is to join. In a Replacement, address and URL may be absent if a member already has the id of
// the new member. The id may also be absent if it equals the id of the replaced member.
type NewMember struct {
	ID      string `json:"id,omitempty"`
	Address string `json:"address,omitempty"`
	URL     string `json:"url,omitempty"`
	Kind    string `json:"kind,omitempty"` // voter (the default) or learner; a Replacement takes the role of the old member
}

// Peer names a member by its id, and by its incarnation if two members have the id.
type Peer struct {
	ID          string `json:"id"`
	Incarnation string `json:"incarnation,omitempty"`
}

// Replacement lets New take the role of Old.
type Replacement struct {
	Old Peer      `json:"old"`
	New NewMember `json:"new"`
}

// Update changes the fields that are not nil.
type Update struct {
	Peer
	Address  *string `json:"address,omitempty"`
	URL      *string `json:"url,omitempty"`
	Priority *int    `json:"priority,omitempty"` // of a voter, from 0, a standby, to 100
}

// Changed is the body of the answer to POST /members.
type Changed struct {
	// Done is false in an answer with status 202. In this case, the change continues, and GET /members shows its progress.
	Done bool `json:"done"`
	Members
}
