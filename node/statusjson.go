package node

import (
	"encoding/json"
	"time"

	"github.com/coxswain/raft"
)

// statusJSON is Status for people and scripts: enumerations are names; ids and durations are text. The keys are a
// contract: new ones may be added, but none is renamed or removed.
type statusJSON struct {
	ID           raft.NodeID       `json:"id"`
	Incarnation  string            `json:"incarnation"`
	StartCount   uint64            `json:"start_count"`
	ClusterName  string            `json:"cluster_name"`
	Cluster      string            `json:"cluster"` // empty until there is one
	Term         raft.Term         `json:"term"`
	Leader       raft.NodeID       `json:"leader"`
	LeaderInc    string            `json:"leader_incarnation"` // empty if none is known
	Role         string            `json:"role"`
	ByTransfer   bool              `json:"by_transfer"`
	LeaderMember *memberJSON       `json:"leader_member"`
	Members      []MemberStatus    `json:"members"`
	Departing    []DepartingMember `json:"departing"`
	ConfigIndex  raft.Index        `json:"config_index"`
	ConfigDone   raft.Index        `json:"config_committed"`
	Phase        string            `json:"phase"`
	Level        uint64            `json:"level"`
	Change       *ChangeStatus     `json:"change"`
	Base         string            `json:"base"` // "index@term"
	Last         string            `json:"last"`
	LogBytes     int64             `json:"log_bytes"`
	Snapshot     SnapshotStatus    `json:"snapshot"`
	Persisted    raft.Index        `json:"persisted"`
	Commit       raft.Index        `json:"commit"`
	Applied      raft.Index        `json:"applied"`
	Applying     string            `json:"applying"`
	Age          string            `json:"age"` // "0s": nothing is proved about it
	Bootstrapped bool              `json:"bootstrapped"`
	Missing      []string          `json:"missing"`
	Wiped        bool              `json:"wiped"`
	SlowElection string            `json:"slow_election"`
	MajorityLost string            `json:"majority_lost"`
	LeaderReason string            `json:"leader_reason"`
	InOffice     string            `json:"in_office"`    // "0s": no leader is known
	Cause        string            `json:"leader_cause"` // empty unless this member leads
	Successors   []raft.NodeID     `json:"successors"`
	Backoff      string            `json:"backoff"`
	Caretaker    bool              `json:"caretaker"`
	DiskStalled  bool              `json:"disk_stalled"`
	FSMHangs     bool              `json:"fsm_hangs"`
	NoRoom       string            `json:"no_room"`
	SmallDisk    string            `json:"small_disk"`
	Tolerance    string            `json:"tolerance"`
	Pending      int               `json:"pending"`
	PendingBytes int               `json:"pending_bytes"`

	AppVersionMin uint64 `json:"app_version_min"`
	Lease         string `json:"lease"`
	LeaseDuration string `json:"lease_duration"`

	Certificate *CertificateStatus `json:"certificate"`

	Findings []findingJSON `json:"findings"`

	Err string `json:"error"`
}

// findingJSON is a Finding in the same form, with what the table says about its verdict.
type findingJSON struct {
	Verdict  string      `json:"verdict"`
	Severity Severity    `json:"severity"`
	Member   raft.NodeID `json:"member"` // "": the cluster
	Says     string      `json:"says"`
	Runbook  string      `json:"runbook"`
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
	Priority    int         `json:"priority"` // 0: raft.PriorityNever; of a learner always 1
	Incarnation string      `json:"incarnation"`
	Next        string      `json:"next"` // "same" unless a change of the members waits
	AppVersion  uint64      `json:"app_version"`
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
	RefusedFor    string     `json:"refused_for"`
	Problem       string     `json:"problem"`
	Verdict       string     `json:"verdict"`

	Standing string   `json:"standing"`
	CatchUp  *CatchUp `json:"catch_up"`
	Backoff  string   `json:"backoff"`
	Dialed   string   `json:"dialed"`
	Protocol uint16   `json:"protocol"` // 0: not known
	Release  string   `json:"release"`
	Replace  bool     `json:"replace"`

	Announced uint64 `json:"announced_app_version"` // 0: none, or not known

	Differs []differenceJSON `json:"differs"`
}

// differenceJSON is a SettingDifference in the same form.
type differenceJSON struct {
	Setting string `json:"setting"`
	Here    string `json:"here"`
	There   string `json:"there"`
	Text    string `json:"text"`
}

// CertificateStatus is about the certificate with which a member proves who it is.
type CertificateStatus struct {
	// NotAfter is when the certificate ends, or one of its authorities, if that ends first. DaysLeft counts the whole days until
	// then, and is negative afterwards.
	NotAfter time.Time `json:"not_after"`
	DaysLeft int       `json:"days_left"`
	// Issuer is the name of the authority that has issued the certificate. Authorities are the names of those whose certificates
	// this member accepts. While the authority of a cluster is changed, they tell how far each member is.
	Issuer      string   `json:"issuer"`
	Authorities []string `json:"authorities"`
	// Refused reports that the files have been changed, but are not used, because they do not fit. The former ones stay in use.
	Refused bool `json:"refused"`
	// Problem says in one sentence what to do: from 30 days before NotAfter on, and while Refused is set. Otherwise it is "".
	Problem string `json:"problem"`
}

// MarshalJSON writes enumerations as names, and ids and durations as text: "role":"leader", "last":"7@3" (entry 7 of
// term 3), "round_trip":"1.5ms". Every field is present, even if it is empty.
func (s Status) MarshalJSON() ([]byte, error) {
	out := statusJSON{
		ID: s.ID, Incarnation: s.Incarnation.String(), StartCount: s.StartCount, ClusterName: s.ClusterName,
		Term: s.Term, Leader: s.Leader, Role: s.Role.String(), ByTransfer: s.ByTransfer, Members: append([]MemberStatus{}, s.Members...),
		Departing: append([]DepartingMember{}, s.Departing...), Change: s.Change,
		ConfigIndex: s.ConfigIndex, ConfigDone: s.ConfigCommitted, Phase: s.Phase, Level: s.Level, AppVersionMin: s.AppVersionMin,
		Lease: s.Lease.String(), LeaseDuration: s.LeaseDuration.String(),
		Base: s.Base.String(), Last: s.Last.String(), LogBytes: s.LogBytes, Snapshot: s.Snapshot,
		Persisted: s.Persisted, Commit: s.Commit, Applied: s.Applied, Applying: s.Applying.String(), Age: s.Age.String(),
		Bootstrapped: s.Bootstrapped, Missing: append([]string{}, s.Missing...), Wiped: s.Wiped, SlowElection: s.SlowElection,
		MajorityLost: s.MajorityLost, LeaderReason: s.LeaderReason, DiskStalled: s.DiskStalled, FSMHangs: s.FSMHangs, NoRoom: s.NoRoom,
		SmallDisk: s.SmallDisk, Tolerance: s.Tolerance,
		Pending: s.Pending, PendingBytes: s.PendingBytes, Certificate: s.Certificate,
		InOffice: s.InOffice.String(), Successors: append([]raft.NodeID{}, s.Successors...), Backoff: s.Backoff.String(), Caretaker: s.Caretaker,
	}
	out.Findings = make([]findingJSON, 0, len(s.Findings))
	for _, f := range s.Findings {
		v, _ := VerdictNamed(f.Verdict)
		out.Findings = append(out.Findings, findingJSON{f.Verdict, v.Severity, f.Member, f.Says, v.Runbook()})
	}
	if s.Role == raft.Leader {
		out.Cause = s.Cause.String()
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
		RoundTrip: m.RoundTrip.String(), RefusedFor: m.RefusedFor.String(), Problem: m.Problem, Verdict: m.Verdict,
		Standing: m.Standing, CatchUp: m.CatchUp, Dialed: m.Dialed, Replace: m.Replace, Protocol: m.Protocol, Release: m.Release, Announced: m.Announced, Backoff: m.Backoff.String(),
	}
	out.Differs = make([]differenceJSON, 0, len(m.Differs))
	for _, d := range m.Differs {
		out.Differs = append(out.Differs, differenceJSON{d.Setting, d.Here, d.There, d.String()})
	}
	return json.Marshal(out)
}

// MarshalJSON writes the progress in the form of Status.MarshalJSON, and also as text.
func (c CatchUp) MarshalJSON() ([]byte, error) {
	return json.Marshal(catchUpJSON{c.Round, c.Target, c.Since.String(), c.Ready, c.Done, c.Total, c.Rate, c.Left.String(), c.Idle.String(), c.String()})
}

// MarshalJSON writes the change in the form of Status.MarshalJSON.
func (c ChangeStatus) MarshalJSON() ([]byte, error) {
	return json.Marshal(changeJSON{c.Stage, c.Since.String(), append([]raft.NodeID{}, c.Waiting...)})
}

// MarshalJSON writes a removed member in the form of Status.MarshalJSON.
func (d DepartingMember) MarshalJSON() ([]byte, error) {
	return json.Marshal(departingJSON{d.ID, d.Incarnation.String(), d.Removal, d.Left.String(), d.Connected, d.Dialed})
}

// membersJSON is Members in the same form.
type membersJSON struct {
	Members   []memberJSON  `json:"members"`
	Outgoing  []peerJSON    `json:"outgoing"`
	Removed   []removalJSON `json:"removed"`
	Patience  string        `json:"patience"`
	Level     uint64        `json:"level"`
	Index     raft.Index    `json:"config_index"`
	Committed bool          `json:"committed"`

	AppVersionMin uint64 `json:"app_version_min"`
	Sessions      bool   `json:"sessions"`
	LeaseDuration string `json:"lease_duration"`
}

type peerJSON struct {
	ID          raft.NodeID `json:"id"`
	Incarnation string      `json:"incarnation"`
}

type removalJSON struct {
	peerJSON
	Removal raft.Index `json:"removal"`
}

// MarshalJSON writes the configuration in the form of Status.MarshalJSON.
func (m Members) MarshalJSON() ([]byte, error) {
	out := membersJSON{
		Members: make([]memberJSON, 0, len(m.Members)), Outgoing: make([]peerJSON, 0, len(m.Outgoing)), Removed: make([]removalJSON, 0, len(m.Removed)),
		Patience: m.Patience.String(), Level: m.Level, AppVersionMin: m.AppVersionMin, Sessions: m.Sessions, LeaseDuration: m.LeaseDuration.String(),
		Index: m.Index, Committed: m.Committed,
	}
	for _, of := range m.Members {
		out.Members = append(out.Members, memberOf(of))
	}
	for _, p := range m.Outgoing {
		out.Outgoing = append(out.Outgoing, peerJSON{p.ID, p.Incarnation.String()})
	}
	for _, r := range m.Removed {
		out.Removed = append(out.Removed, removalJSON{peerJSON{r.Peer.ID, r.Peer.Incarnation.String()}, r.Index})
	}
	return json.Marshal(out)
}

func memberOf(m raft.Member) memberJSON {
	return memberJSON{
		ID: m.ID, Address: m.Address, Meta: m.Meta, Kind: m.Kind.String(), Priority: m.Priority.Number(),
		Incarnation: m.Incarnation.String(), Next: m.Next.String(), AppVersion: m.AppVersion,
	}
}

func contactText(since time.Duration) string {
	if since < 0 {
		return "never"
	}
	return since.String()
}
