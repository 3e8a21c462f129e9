package admin

import (
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
)

// Transferred is the body of the answer to POST /transfer.
type Transferred struct {
	Leader string `json:"leader"` // the new leader, as the former leader reports
}

// Snapshotted is the body of the answer to POST /snapshot.
type Snapshotted struct {
	ID string `json:"id"` // the answering member
	// Taken is false in an answer with status 202. In this case, the member is still taking the snapshot, and /status shows
	// its progress.
	Taken bool `json:"taken"`
	// Last is the last entry that the newest snapshot covers. While the member is taking a snapshot, Last is an entry that
	// this snapshot will cover.
	Last  uint64 `json:"last"`
	Term  uint64 `json:"term,omitempty"`  // term of entry Last
	Bytes int64  `json:"bytes,omitempty"` // size of the newest snapshot
}

// Status is the body of the answer to GET /status.
type Status struct {
	ID           string         `json:"id"`
	Incarnation  string         `json:"incarnation"`
	StartCount   uint64         `json:"start_count"`
	ClusterName  string         `json:"cluster_name"`
	Cluster      string         `json:"cluster,omitempty"` // empty until bootstrapped
	Bootstrapped bool           `json:"bootstrapped"`
	Wiped        bool           `json:"wiped"`
	Role         string         `json:"role"`
	Term         uint64         `json:"term"`
	Leader       string         `json:"leader,omitempty"`
	LeaderURL    string         `json:"leader_url,omitempty"`
	LeaderReason string         `json:"leader_reason,omitempty"`
	InOfficeMS   float64        `json:"in_office_ms,omitempty"`  // for how long this member has known the leader
	LeaderCause  string         `json:"leader_cause,omitempty"`  // of a leader: why it took over, see raft.Cause
	Successors   []string       `json:"successors,omitempty"`    // the voters that would take over, the first one first
	BackoffMS    float64        `json:"backoff_ms,omitempty"`    // how long it still counts as one with priority 0, because it has lost its leadership
	Caretaker    bool           `json:"caretaker,omitempty"`     // it leads although its priority is 0
	SlowElection string         `json:"slow_election,omitempty"` // a sentence: what takes longer than the election timeout, or that leaders change too often
	MajorityLost string         `json:"majority_lost,omitempty"` // a sentence: so many disks are lost that no command helps
	DiskStalled  bool           `json:"disk_stalled,omitempty"`
	FSMHangs     bool           `json:"fsm_hangs,omitempty"`
	NoRoom       string         `json:"no_room,omitempty"`     // a sentence: the disk has no room for more entries of the log
	SmallDisk    string         `json:"small_disk,omitempty"`  // a sentence: the disk is smaller than the member may need
	Certificate  string         `json:"certificate,omitempty"` // a sentence: the certificate of the member ends soon, or changed files do not fit
	Tolerance    string         `json:"tolerance,omitempty"`
	Missing      []string       `json:"missing,omitempty"`
	Base         uint64         `json:"base"` // index of the entry before the first one of the log
	Last         uint64         `json:"last"`
	LogBytes     int64          `json:"log_bytes"` // size of the log on disk
	Snapshot     Snapshot       `json:"snapshot"`
	Persisted    uint64         `json:"persisted"`
	Commit       uint64         `json:"commit"`
	Applied      uint64         `json:"applied"`
	ApplyingMS   float64        `json:"applying_ms,omitempty"` // duration of the running call of the state machine, so far
	Pending      int            `json:"pending"`
	Members      []MemberStatus `json:"members"`
	Phase        string         `json:"phase,omitempty"` // as in Members
	Error        string         `json:"error,omitempty"` // why the node ended
	// AppVersionMin is as in Members.
	AppVersionMin uint64 `json:"app_version_min,omitempty"`
	// TLS has the certificate and the authorities that the member uses. Nil: it has no certificate files, or runs an earlier release.
	TLS *node.CertificateStatus `json:"tls,omitempty"`
	// Findings are all verdicts that apply as seen from this member, causes before their effects. Servers report them from v0.9.0.
	Findings []Finding `json:"findings,omitempty"`
}

// Finding is a verdict of the table node.Verdicts that applies, as a member sees it.
type Finding struct {
	Verdict  string        `json:"verdict"`
	Severity node.Severity `json:"severity"`
	Member   string        `json:"member,omitempty"` // the member that it is about; empty: the cluster
	Says     string        `json:"says"`
}

// Snapshot describes a member's newest snapshot and its work on snapshots.
type Snapshot struct {
	Last      uint64    `json:"last"`   // last entry that it covers; 0: no snapshot
	Bytes     int64     `json:"bytes"`  // its size
	AgeMS     float64   `json:"age_ms"` // -1: there is no snapshot, or it was received, or taken before this start
	Taking    *Transfer `json:"taking,omitempty"`
	Restoring *Transfer `json:"restoring,omitempty"`
	Receiving *Transfer `json:"receiving,omitempty"`
	Sending   *Transfer `json:"sending,omitempty"`
	Error     string    `json:"error,omitempty"`         // why the last attempt to take a snapshot failed
	SendErr   string    `json:"send_error,omitempty"`    // why the last snapshot that it sent did not arrive
	RecvErr   string    `json:"receive_error,omitempty"` // why the last snapshot from a leader did not arrive here
	None      string    `json:"unsupported,omitempty"`   // why this member takes no snapshots
}

// Transfer describes the progress of a snapshot that is being taken, restored, received or sent.
type Transfer struct {
	Last  uint64  `json:"last"`           // last entry that the snapshot covers
	Peer  string  `json:"peer,omitempty"` // member that sends or receives it
	Done  int64   `json:"done"`           // bytes
	Total int64   `json:"total"`          // bytes; -1: not known
	ForMS float64 `json:"for_ms"`
	// LeftMS is the remaining time at the present rate. It is absent if it is not known. Servers report it from v0.3.0.
	LeftMS float64 `json:"left_ms,omitempty"`
}

// MemberStatus is one member of the cluster as the answering member sees it.
type MemberStatus struct {
	ID            string  `json:"id"`
	Address       string  `json:"address"`
	URL           string  `json:"url,omitempty"`
	Kind          string  `json:"kind"`
	Standing      string  `json:"standing,omitempty"` // as in ClusterMember, unless it is a voter
	Incarnation   string  `json:"incarnation"`
	State         string  `json:"state,omitempty"`
	Match         uint64  `json:"match,omitempty"`
	Lag           uint64  `json:"lag,omitempty"`
	Connected     bool    `json:"connected"`
	ConnectionErr string  `json:"connection_error,omitempty"`
	LastContactMS float64 `json:"last_contact_ms"` // -1: never
	RoundTripMS   float64 `json:"round_trip_ms,omitempty"`
	Problem       string  `json:"problem,omitempty"`    // why it does not count or does not serve; empty if there is no problem
	Verdict       string  `json:"verdict,omitempty"`    // the kind of Problem, for programs: see node.MemberStatus
	Replace       bool    `json:"replace,omitempty"`    // it will not count again until it is replaced
	Protocol      uint16  `json:"protocol,omitempty"`   // as in ClusterMember
	Priority      *int    `json:"priority,omitempty"`   // as in ClusterMember
	BackoffMS     float64 `json:"backoff_ms,omitempty"` // as in Status; the leader reports it for every member
	Release       string  `json:"release,omitempty"`
	// AppVersion is as in ClusterMember.
	AppVersion uint64 `json:"app_version,omitempty"`
	// Differs holds a sentence for each setting that should equal the setting of the answering member and does not.
	Differs []string `json:"differs,omitempty"`
}

// StatusOf returns what GET /status answers, for a program that answers with more.
func StatusOf(m Member) Status { return describe(m.Status(), m.Members().Configuration) }

func describe(n node.Status, c raft.Configuration) Status {
	status := Status{
		ID: string(n.ID), Incarnation: n.Incarnation.String(), StartCount: n.StartCount, ClusterName: n.ClusterName,
		Bootstrapped: n.Bootstrapped, Wiped: n.Wiped, Role: n.Role.String(), Term: uint64(n.Term), Leader: string(n.Leader),
		LeaderReason: n.LeaderReason, SlowElection: n.SlowElection, MajorityLost: n.MajorityLost, DiskStalled: n.DiskStalled, FSMHangs: n.FSMHangs, NoRoom: n.NoRoom,
		SmallDisk: n.SmallDisk, Tolerance: n.Tolerance, Missing: n.Missing,
		Base: uint64(n.Base.Index), Last: uint64(n.Last.Index), LogBytes: n.LogBytes, Snapshot: describeSnapshot(n.Snapshot), Persisted: uint64(n.Persisted), Commit: uint64(n.Commit), Applied: uint64(n.Applied),
		ApplyingMS: milliseconds(n.Applying), Pending: n.Pending, Members: make([]MemberStatus, 0, len(n.Members)),
		Phase: phaseOf(c), InOfficeMS: milliseconds(n.InOffice), BackoffMS: milliseconds(n.Backoff), Caretaker: n.Caretaker, AppVersionMin: n.AppVersionMin,
	}
	for _, id := range n.Successors {
		status.Successors = append(status.Successors, string(id))
	}
	if n.Role == raft.Leader {
		status.LeaderCause = n.Cause.String()
	}
	if n.Bootstrapped {
		status.Cluster = n.Cluster.String()
	}
	for _, f := range n.Findings {
		v, _ := node.VerdictNamed(f.Verdict)
		status.Findings = append(status.Findings, Finding{f.Verdict, v.Severity, string(f.Member), f.Says})
	}
	if n.LeaderMember != nil {
		status.LeaderURL = n.LeaderMember.Meta
	}
	if n.Certificate != nil {
		status.Certificate, status.TLS = n.Certificate.Problem, n.Certificate
	}
	if n.Err != nil {
		status.Error = n.Err.Error()
	}
	for _, m := range n.Members {
		member := describeMember(m)
		member.Priority = priorityOf(c, m.Member)
		if standing := standingOf(c, m.Member); standing != StandingVoter {
			member.Standing = standing
		}
		status.Members = append(status.Members, member)
	}
	return status
}

func describeMember(m node.MemberStatus) MemberStatus {
	member := MemberStatus{
		ID: string(m.ID), Address: m.Address, URL: m.Meta, Kind: m.Kind.String(), Incarnation: m.Incarnation.String(),
		State: m.State, Match: uint64(m.Match), Lag: m.Lag, Connected: m.Connected, ConnectionErr: m.ConnectionErr,
		LastContactMS: -1, RoundTripMS: milliseconds(m.RoundTrip), Problem: m.Problem, Verdict: m.Verdict, Replace: m.Replace,
		Protocol: m.Protocol, AppVersion: m.Announced, Release: m.Release, BackoffMS: milliseconds(m.Backoff),
	}
	for _, d := range m.Differs {
		member.Differs = append(member.Differs, d.String())
	}
	if m.LastContact >= 0 {
		member.LastContactMS = milliseconds(m.LastContact)
	}
	return member
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func describeSnapshot(s node.SnapshotStatus) Snapshot {
	described := Snapshot{
		Last: uint64(s.Last.Index), Bytes: s.Bytes, AgeMS: -1, None: s.Unsupported,
		Taking: describeTransfer(s.Taking), Restoring: describeTransfer(s.Restoring),
		Receiving: describeTransfer(s.Receiving), Sending: describeTransfer(s.Sending),
	}
	if !s.At.IsZero() {
		described.AgeMS = milliseconds(time.Since(s.At))
	}
	for _, row := range []struct {
		err  error
		text *string
	}{{s.Err, &described.Error}, {s.SendErr, &described.SendErr}, {s.ReceiveErr, &described.RecvErr}} {
		if row.err != nil {
			*row.text = row.err.Error()
		}
	}
	return described
}

func describeTransfer(t *node.Transfer) *Transfer {
	if t == nil {
		return nil
	}
	return &Transfer{Last: uint64(t.ID.Index), Peer: string(t.Peer), Done: t.Done, Total: t.Total, ForMS: milliseconds(t.Since), LeftMS: milliseconds(t.Left)}
}
