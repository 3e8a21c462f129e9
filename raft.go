package raft

import "time"

// Role is what a member is at present (paper §5.1).
type Role uint8

// The roles.
const (
	Follower Role = iota
	PreCandidate
	Candidate
	Leader
)

func (r Role) String() string {
	switch r {
	case Follower:
		return "follower"
	case PreCandidate:
		return "pre-candidate"
	case Candidate:
		return "candidate"
	}
	return "leader"
}

// CoreConfig is what a Core needs to know besides what is stored.
type CoreConfig struct {
	ID      NodeID
	Initial Configuration // Config.Initial, sorted; empty if there is none
	// NewCluster is a fresh random id, for the case that this member founds a cluster.
	NewCluster ClusterID
	// ElectionTimeout and HeartbeatInterval, see Config.ElectionTimeout.
	ElectionTimeout   time.Duration
	HeartbeatInterval time.Duration
	Seed              uint64 // of the random election timeouts

	CommandBytesMax  int // see Config
	ProposalsMax     int // outstanding proposals, and reads
	UncommittedMax   int // bytes of outstanding proposals
	UnappliedMax     int // entries in the log that are not applied
	AppendBytesMax   int // of one append
	InflightMax      int // appends to one follower
	InflightBytesMax int
}

// Core is Raft: a deterministic state machine in memory.
type Core struct{}

// NewCore returns a core that goes on from what was stored, and its first Output. It fails with a
// *AppliedBeyondLogError if the state is ahead of the log, and with another error if what was stored
// cannot be a member's state.
func NewCore(cfg CoreConfig, stored Stored, now Now) (*Core, Output, error) { panic("x") }

// Step takes the events in order, then looks at the deadlines, and returns what is to be done. It
// panics with *InvariantError if the core finds itself in an impossible state; the core is dead then.
func (c *Core) Step(now Now, events ...Event) Output { panic("x") }

// Leadership is who leads, as far as this member knows.
type Leadership struct {
	Term   Term
	Leader NodeID // "" if none is known
	Role   Role   // this member's own
}

// Leadership returns who leads. It allocates nothing.
func (c *Core) Leadership() Leadership { panic("x") }

// CoreStatus is all that a core can say of itself.
type CoreStatus struct {
	ID          NodeID
	Incarnation Incarnation
	Boot        uint64
	Cluster     ClusterID // zero while blank
	Leadership
	Founder   Peer // zero while blank
	Blank     bool
	Config    Configuration
	Last      EntryID // of the log
	Persisted Index   // durable here
	Commit    Index
	Applied   Index
	// Missing says, while a cluster is being founded, what it waits for, one sentence a member.
	Missing []string
	Peers   []PeerProgress // on a leader: every other member, sorted by id
	// Outstanding proposals and their bytes, on a leader.
	Outstanding      int
	OutstandingBytes int
}

// PeerProgress is a leader's view of another member.
type PeerProgress struct {
	ID        NodeID
	State     string // "probe" or "stream"
	Match     Index  // its log is known to hold the leader's up to here
	Next      Index  // the next entry to send
	Inflight  int    // appends that are not answered
	LastHeard Time   // 0: never in this term
}

// Status returns a value that says it all.
func (c *Core) Status() CoreStatus { panic("x") }
