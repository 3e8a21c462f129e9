package node

import (
	"encoding/json"
	"time"

	"github.com/coxswain/raft"
)

// statusJSON is Status for people and scripts: names instead of numbers, ids and durations as text. The keys
// are a contract: they may be added to, but neither renamed nor removed.
type statusJSON struct {
	ID           raft.NodeID     `json:"id"`
	Incarnation  string          `json:"incarnation"`
	StartCount   uint64          `json:"start_count"`
	ClusterName  string          `json:"cluster_name"`
	Cluster      string          `json:"cluster"` // empty until there is one
	Term         raft.Term       `json:"term"`
	Leader       raft.NodeID     `json:"leader"`
	LeaderInc    string          `json:"leader_incarnation"` // empty if none is known
	Role         string          `json:"role"`
	LeaderMember *memberJSON     `json:"leader_member"`
	Members      []MemberStatus  `json:"members"`
	Departing    []departingJSON `json:"departing"`
	ConfigIndex  raft.Index      `json:"config_index"`
	ConfigDone   raft.Index      `json:"config_committed"`
	Phase        string          `json:"phase"`
	Level        uint64          `json:"level"`
	Change       *changeJSON     `json:"change"`
	Base         string          `json:"base"` // "index@term"
	Last         string          `json:"last"`
	LogBytes     int64           `json:"log_bytes"`
	Snapshot     snapshotJSON    `json:"snapshot"`
	Persisted    raft.Index      `json:"persisted"`
	Commit       raft.Index      `json:"commit"`
	Applied      raft.Index      `json:"applied"`
	Applying     string          `json:"applying"`
	Bootstrapped bool            `json:"bootstrapped"`
	Missing      []string        `json:"missing"`
	Wiped        bool            `json:"wiped"`
	SlowElection string          `json:"slow_election"`
	LeaderReason string          `json:"leader_reason"`
	DiskStalled  bool            `json:"disk_stalled"`
	NoRoom       string          `json:"no_room"`
	SmallDisk    string          `json:"small_disk"`
	Tolerance    string          `json:"tolerance"`
	Pending      int             `json:"pending"`
	PendingBytes int             `json:"pending_bytes"`
	Err          string          `json:"error"`
}

// changeJSON is a ChangeStatus in the same form.
type changeJSON struct {
	Stage   string        `json:"stage"`
	Since   string        `json:"since"`
	Waiting []raft.NodeID `json:"waiting"`
}

// catchUpJSON is a CatchUp in the same form.
type catchUpJSON struct {
	Round  int        `json:"round"`
	Target raft.Index `json:"target"`
	Since  string     `json:"since"`
	Ready  bool       `json:"ready"`
	Done   int64      `json:"done"`
	Total  int64      `json:"total"`
	Rate   float64    `json:"entries_per_second"` // 0: not known yet
	Left   string     `json:"left"`               // "0s": not known
	Idle   string     `json:"idle"`
	Text   string     `json:"text"`
}

// departingJSON is a DepartingMember in the same form.
type departingJSON struct {
	ID          raft.NodeID `json:"id"`
	Incarnation string      `json:"incarnation"`
	Removal     raft.Index  `json:"removal"`
	Left        string      `json:"left"` // "0s": its removal is not known to be committed
	Connected   bool        `json:"connected"`
	Dialed      string      `json:"dialed"`
}

// memberJSON is a raft.Member in the same form.
type memberJSON struct {
	ID          raft.NodeID `json:"id"`
	Address     string      `json:"address"`
	Meta        string      `json:"meta"`
	Kind        string      `json:"kind"`
	Incarnation string      `json:"incarnation"`
	Next        string      `json:"next"` // "same" unless a change of the members waits
}

type memberStatusJSON struct {
	memberJSON
	State         string     `json:"state"`
	Match         raft.Index `json:"match"`
	Lag           uint64     `json:"lag"`
	Inflight      int        `json:"inflight"`
	LastContact   string     `json:"last_contact"` // "never" if it never was
	Connected     bool       `json:"connected"`
	ConnectionErr string     `json:"connection_error"`
	RoundTrip     string     `json:"round_trip"`
	Problem       string     `json:"problem"`

	Standing string       `json:"standing"`
	CatchUp  *catchUpJSON `json:"catch_up"`
	Dialed   string       `json:"dialed"`
	Protocol uint16       `json:"protocol"` // 0: not known
	Release  string       `json:"release"`
	Replace  bool         `json:"replace"`
}

// MarshalJSON writes names instead of numbers, and ids and durations as text: "role":"leader", "last":"7@3"
// (entry 7 of term 3), "round_trip":"1.5ms". Every field is present, even if it is empty.
func (s Status) MarshalJSON() ([]byte, error) {
	out := statusJSON{
		ID: s.ID, Incarnation: s.Incarnation.String(), StartCount: s.StartCount, ClusterName: s.ClusterName,
		Term: s.Term, Leader: s.Leader, Role: s.Role.String(), Members: append([]MemberStatus{}, s.Members...),
		ConfigIndex: s.ConfigIndex, ConfigDone: s.ConfigCommitted, Phase: s.Phase, Level: s.Level,
		Base: s.Base.String(), Last: s.Last.String(), LogBytes: s.LogBytes, Snapshot: s.Snapshot.json(),
		Persisted: s.Persisted, Commit: s.Commit, Applied: s.Applied, Applying: s.Applying.String(),
		Bootstrapped: s.Bootstrapped, Missing: append([]string{}, s.Missing...), Wiped: s.Wiped, SlowElection: s.SlowElection,
		LeaderReason: s.LeaderReason, DiskStalled: s.DiskStalled, NoRoom: s.NoRoom, SmallDisk: s.SmallDisk, Tolerance: s.Tolerance,
		Pending: s.Pending, PendingBytes: s.PendingBytes,
	}
	out.Departing = make([]departingJSON, 0, len(s.Departing))
	for _, d := range s.Departing {
		out.Departing = append(out.Departing, departingJSON{d.ID, d.Incarnation.String(), d.Removal, d.Left.String(), d.Connected, d.Dialed})
	}
	if c := s.Change; c != nil {
		out.Change = &changeJSON{c.Stage, c.Since.String(), append([]raft.NodeID{}, c.Waiting...)}
	}
	if s.LeaderIncarnation != 0 {
		out.LeaderInc = s.LeaderIncarnation.String()
	}
	if s.Cluster != (raft.ClusterID{}) {
		out.Cluster = s.Cluster.String()
	}
	if s.LeaderMember != nil {
		m := memberOf(*s.LeaderMember)
		out.LeaderMember = &m
	}
	if s.Err != nil {
		out.Err = s.Err.Error()
	}
	return json.Marshal(out)
}

// MarshalJSON writes a member in the form of Status.MarshalJSON.
func (m MemberStatus) MarshalJSON() ([]byte, error) {
	out := memberStatusJSON{
		memberJSON: memberOf(m.Member), State: m.State, Match: m.Match, Lag: m.Lag, Inflight: m.Inflight,
		LastContact: contactText(m.LastContact), Connected: m.Connected, ConnectionErr: m.ConnectionErr,
		RoundTrip: m.RoundTrip.String(), Problem: m.Problem,
		Standing: m.Standing, Dialed: m.Dialed, Replace: m.Replace, Protocol: m.Protocol, Release: m.Release,
	}
	if c := m.CatchUp; c != nil {
		out.CatchUp = &catchUpJSON{c.Round, c.Target, c.Since.String(), c.Ready, c.Done, c.Total, c.Rate, c.Left.String(), c.Idle.String(), c.String()}
	}
	return json.Marshal(out)
}

func memberOf(m raft.Member) memberJSON {
	return memberJSON{
		ID: m.ID, Address: m.Address, Meta: m.Meta, Kind: m.Kind.String(), Incarnation: m.Incarnation.String(), Next: m.Next.String(),
	}
}

func contactText(since time.Duration) string {
	if since < 0 {
		return "never"
	}
	return since.String()
}
