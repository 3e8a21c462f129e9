// Package api defines what the server and the clients of the demo store share: paths, headers, error codes and JSON bodies.
package api

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Paths.
const (
	KeysPath     = "/kv" // the listing; KeysPath + "/" + KeyPath(key) is one key
	StatusPath   = "/status"
	HealthPath   = "/healthz"
	ReadyPath    = "/readyz"
	MetricsPath  = "/metrics"
	TransferPath = "/transfer"
	SnapshotPath = "/snapshot"
	MembersPath  = "/members"
)

// Headers.
const (
	// NodeHeader is a response header that names the member that carried out the request.
	NodeHeader = "Raftkv-Node"
	// ForwardedHeader names the member that forwarded the request to the leader. A request with this header is not forwarded
	// again. A response with this header answers a forwarded request.
	ForwardedHeader = "Raftkv-Forwarded-By"
	// AppliedHeader is a response header of reads. It holds the raft index up to which the answering member had applied the
	// log.
	AppliedHeader = "Raftkv-Applied"
)

// JSONType is the Content-Type of all bodies except values and metrics.
const JSONType = "application/json"

// Values of the query parameter "consistency" of reads.
const (
	Linearizable = "linearizable" // the default: sees every write acknowledged before the read began
	Stale        = "stale"        // sees what this member has, however old; works without a leader
)

// Limits of a listing.
const (
	ListLimitDefault = 100
	ListLimitMax     = 1000
)

// KeyPath returns the path of a key. It escapes everything but letters, digits, "-", "_" and "~", because proxies may
// resolve dots and slashes.
func KeyPath(key string) string {
	escaped := strings.ReplaceAll(url.QueryEscape(key), "+", "%20")
	return KeysPath + "/" + strings.ReplaceAll(escaped, ".", "%2E")
}

// IsURL reports whether the text is a base URL of a server.
func IsURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// CheckAddress returns an error if other members cannot dial a member at this address. A member can listen on some addresses,
// such as 0.0.0.0, but others cannot dial them. CheckAddress refuses these, too.
func CheckAddress(text string) error {
	host, port, err := net.SplitHostPort(text)
	if err == nil && host != "" && port != "" && !net.ParseIP(host).IsUnspecified() {
		if number, failed := net.LookupPort("tcp", port); failed == nil && number != 0 {
			return nil
		}
	}
	return fmt.Errorf("others cannot dial %q; write host:port, as in 10.0.0.4:5001", text)
}

// CheckURL returns an error if clients cannot ask a server at this URL.
func CheckURL(text string) error {
	if u, err := url.Parse(text); err == nil && IsURL(text) && u.Hostname() != "" && !net.ParseIP(u.Hostname()).IsUnspecified() {
		return nil
	}
	return fmt.Errorf("%q is not a URL at which others can reach a server; write http://host:port", text)
}

// ETag returns the entity tag of a revision.
func ETag(revision uint64) string { return `"` + strconv.FormatUint(revision, 10) + `"` }

// ParseETag parses one entity tag, as written by ETag.
func ParseETag(tag string) (uint64, error) {
	inner, ok := strings.CutPrefix(tag, `"`)
	inner, ok2 := strings.CutSuffix(inner, `"`)
	revision, err := strconv.ParseUint(inner, 10, 64)
	if !ok || !ok2 || err != nil {
		return 0, fmt.Errorf("%q is not an entity tag of this store; they look like %s", tag, ETag(42))
	}
	return revision, nil
}

// Written is the body of the answer to PUT and DELETE.
type Written struct {
	Revision uint64 `json:"revision"` // raft index of this change
	Existed  bool   `json:"existed"`  // whether the key existed before
}

// Listing is the body of the answer to GET /kv.
type Listing struct {
	Items []Listed `json:"items"`
	// Next is the value of "after" for the next page. It is empty on the last page.
	Next string `json:"next,omitempty"`
}

// Listed is one key of a Listing.
type Listed struct {
	Key      string `json:"key"`
	Revision uint64 `json:"revision"`
	Bytes    int    `json:"bytes"` // size of the value
}

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
	ID           string   `json:"id"`
	Incarnation  string   `json:"incarnation"`
	StartCount   uint64   `json:"start_count"`
	ClusterName  string   `json:"cluster_name"`
	Cluster      string   `json:"cluster,omitempty"` // empty until bootstrapped
	Bootstrapped bool     `json:"bootstrapped"`
	Wiped        bool     `json:"wiped"`
	Role         string   `json:"role"`
	Term         uint64   `json:"term"`
	Leader       string   `json:"leader,omitempty"`
	LeaderURL    string   `json:"leader_url,omitempty"`
	LeaderReason string   `json:"leader_reason,omitempty"`
	InOfficeMS   float64  `json:"in_office_ms,omitempty"`  // for how long this member has known the leader
	LeaderCause  string   `json:"leader_cause,omitempty"`  // of a leader: why it took over, see raft.Cause
	Successors   []string `json:"successors,omitempty"`    // the voters that would take over, the first one first
	BackoffMS    float64  `json:"backoff_ms,omitempty"`    // how long it still counts as one with priority 0, because it has lost its leadership
	Caretaker    bool     `json:"caretaker,omitempty"`     // it leads although its priority is 0
	SlowElection string   `json:"slow_election,omitempty"` // a sentence: what takes longer than the election timeout, or that leaders change too often
	MajorityLost string   `json:"majority_lost,omitempty"` // a sentence: so many disks are lost that no command helps
	DiskStalled  bool     `json:"disk_stalled,omitempty"`
	FSMHangs     bool     `json:"fsm_hangs,omitempty"`
	NoRoom       string   `json:"no_room,omitempty"`     // a sentence: the disk has no room for more entries of the log
	SmallDisk    string   `json:"small_disk,omitempty"`  // a sentence: the disk is smaller than the member may need
	Certificate  string   `json:"certificate,omitempty"` // a sentence: the certificate of the member ends soon, or changed files do not fit
	Tolerance    string   `json:"tolerance,omitempty"`
	Missing      []string `json:"missing,omitempty"`
	Base         uint64   `json:"base"` // index of the entry before the first one of the log
	Last         uint64   `json:"last"`
	LogBytes     int64    `json:"log_bytes"` // size of the log on disk
	Snapshot     Snapshot `json:"snapshot"`
	Persisted    uint64   `json:"persisted"`
	Commit       uint64   `json:"commit"`
	Applied      uint64   `json:"applied"`
	ApplyingMS   float64  `json:"applying_ms,omitempty"` // duration of the running call of the state machine, so far
	Pending      int      `json:"pending"`
	Keys         int      `json:"keys"` // number of keys; 0 while a snapshot is restored
	Members      []Member `json:"members"`
	Phase        string   `json:"phase,omitempty"` // as in Members
	Error        string   `json:"error,omitempty"` // why the node ended
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

// Member is one member of the cluster as the answering member sees it.
type Member struct {
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
	// Differs holds a sentence for each setting that should equal the setting of the answering member and does not.
	Differs []string `json:"differs,omitempty"`
}

// ReplaceHint returns a sentence about a member that does not count again before its replacement. The sentence gives the
// remedy.
func ReplaceHint(id string) string {
	return "start it with an empty --data directory, and run: raftkv members replace " + id
}
