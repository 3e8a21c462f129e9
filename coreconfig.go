package raft

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// This file holds the settings of a core: their meaning, defaults and limits.

// CoreConfig configures a Core. The zero value of a time or of a limit means its default.
type CoreConfig struct {
	ID      NodeID        // required
	Initial Configuration // node.Config.Initial; empty if there is none
	// NewCluster is a fresh random id, which the cluster gets if this member bootstraps it. Required with Initial.
	NewCluster ClusterID
	// ElectionTimeout is node.Config.ElectionTimeout. HeartbeatInterval is by default a third of it, and at
	// most half.
	ElectionTimeout   time.Duration
	HeartbeatInterval time.Duration
	DiskStallMax      time.Duration // see Config
	ApplyStallMax     time.Duration // see Config
	Seed              uint64        // of the random election timeouts; 0 is a seed like any other
	// Snapshots says that the storage is a SnapshotStorage: the core takes snapshots, compacts its log, and exchanges
	// snapshots with the other members. Without it the log only grows.
	Snapshots bool
	// DurableFSM says that the FSM is a DurableFSM: the log is compacted up to what the FSM has synced, without a file.
	DurableFSM bool

	Limits
}

// WithDefaults returns the configuration with every zero value replaced by its default, as NewCore does.
func (c CoreConfig) WithDefaults() CoreConfig {
	setDefault(&c.ElectionTimeout, electionTimeoutDefault)
	setDefault(&c.HeartbeatInterval, c.ElectionTimeout/3)
	setDefault(&c.DiskStallMax, diskStallMaxDefault)
	setDefault(&c.ApplyStallMax, applyStallMaxDefault)
	c.Limits = c.Limits.withDefaults()
	return c
}

// Validate returns all problems of the configuration, joined, each a *ConfigError; nil if there are none. NewCore
// calls it.
func (c CoreConfig) Validate() error {
	c = c.WithDefaults()
	var p configProblems
	p.member(c.ID, c.Initial.Members)
	if len(c.Initial.Members) > 0 && c.NewCluster == (ClusterID{}) {
		p.add("NewCluster", "is zero; a member with initial members may bootstrap a cluster: draw a random id")
	}
	p.timeWithin("ElectionTimeout", c.ElectionTimeout)
	if c.ElectionTimeout >= timeoutMin && (c.HeartbeatInterval <= 0 || c.HeartbeatInterval > c.ElectionTimeout/2) {
		p.add("HeartbeatInterval", "%v; it takes more than 0 and at most half of ElectionTimeout, %v",
			c.HeartbeatInterval, c.ElectionTimeout)
	}
	p.timeWithin("DiskStallMax", c.DiskStallMax)
	p.timeWithin("ApplyStallMax", c.ApplyStallMax)
	p.limits(c.Limits)
	return p.joined()
}

// Defaults and bounds of times.
const (
	electionTimeoutDefault = 150 * time.Millisecond
	diskStallMaxDefault    = time.Second
	applyStallMaxDefault   = 10 * time.Second
	timeoutMin             = 10 * time.Millisecond
	timeoutMax             = time.Hour
)

func setDefault[T int | time.Duration](field *T, standard T) {
	if *field == 0 {
		*field = standard
	}
}

// configProblems collects the problems of a configuration.
type configProblems []error

func (p *configProblems) add(field, format string, args ...any) {
	*p = append(*p, &ConfigError{Field: field, Err: fmt.Errorf(format, args...)})
}

func (p *configProblems) within(field string, value, least, most int) {
	if value < least || value > most {
		p.add(field, "%d; it takes %d to %d", value, least, most)
	}
}

func (p *configProblems) timeWithin(field string, value time.Duration) {
	if value < timeoutMin || value > timeoutMax {
		p.add(field, "%v; it takes 10 ms to 1 h", value)
	}
}

// limits checks limits whose defaults are set.
func (p *configProblems) limits(l Limits) {
	p.within("CommandBytesMax", l.CommandBytesMax, 1, EntryDataBytesMax)
	p.within("ProposalsMax", l.ProposalsMax, 1, 1<<24)
	p.within("ProposalBytesMax", l.ProposalBytesMax, 1, LimitBytesMax)
	p.within("UnappliedMax", l.UnappliedMax, 1, 1<<24)
	p.within("AppendBytesMax", l.AppendBytesMax, 1, 64<<20)
	p.within("InflightMax", l.InflightMax, 1, 1<<16)
	p.within("InflightBytesMax", l.InflightBytesMax, 1, LimitBytesMax)
	p.within("SnapshotEntries", l.SnapshotEntries, 1, LimitBytesMax)
	p.within("SnapshotLogBytes", l.SnapshotLogBytes, 1, LimitBytesMax)
	p.within("SnapshotTailBytes", l.SnapshotTailBytes, 1, LimitBytesMax)
	p.within("SnapshotHoldBytes", l.SnapshotHoldBytes, 1, LimitBytesMax)
}

// member checks the id of this member and the list of initial members.
func (p *configProblems) member(id NodeID, list []Member) {
	if err := validateNodeID(id); err != nil {
		p.add("ID", "%w", err)
	}
	if len(list) == 0 {
		return
	}
	initial := NewConfiguration(list)
	if err := initial.Validate(); err != nil {
		p.add("Initial", "%w", err)
	}
	if _, ok := initial.Member(id); !ok {
		p.add("Initial", "does not name this member, %q: add it, or leave the list empty if the member is to be added to a cluster later", id)
	}
	for _, m := range list {
		if m.Incarnation != 0 {
			p.add("Initial", "member %q has an incarnation; leave it 0: each store draws its own", m.ID)
		}
	}
}

func (p configProblems) joined() error {
	if len(p) == 0 {
		return nil
	}
	return fmt.Errorf("raft: invalid configuration: %w", errors.Join(p...))
}

// Limits bound what a member keeps and sends. node.Config and CoreConfig share them. A zero value means the default
// that the field documents.
type Limits struct {
	// CommandBytesMax bounds one command. Default 1 MiB, at most EntryDataBytesMax.
	CommandBytesMax int
	// ProposalsMax bounds the proposals and reads, each, that wait for an answer. Default 16,384.
	ProposalsMax int
	// ProposalBytesMax bounds the bytes of the proposals that wait for an answer: once they have reached it, new
	// proposals are refused. The last one may exceed it, so that a large command has the same chance as small
	// ones. Default 64 MiB.
	ProposalBytesMax int
	// UnappliedMax bounds the entries in the log that are not applied yet. Default 65,536.
	UnappliedMax int
	// AppendBytesMax bounds the entries of one append message, which carries at least one entry
	// whatever its size. Default 1 MiB.
	AppendBytesMax int
	// InflightMax bounds the append messages to one follower that are not answered yet. Default 256.
	InflightMax int
	// InflightBytesMax bounds the bytes of those appends; the last one may exceed it. Default 8 MiB.
	InflightBytesMax int
	// SnapshotEntries is after how many applied entries a snapshot is taken. Default 65,536.
	//
	// This limit and the next one say how often snapshots are taken; the two after them, how much of the log stays when one
	// is taken. In between the log grows. A snapshot that a member takes by itself shortens the log if that drops an eighth of
	// SnapshotEntries or of SnapshotLogBytes at least, since it costs a write. One that was asked for (Node.Snapshot, SnapshotRequested)
	// drops all but the tail and what followers need, however little that is.
	SnapshotEntries int
	// SnapshotLogBytes is after how many bytes of applied entries a snapshot is taken, if that is sooner; if the
	// last snapshot was larger, after as many bytes as it has. Default 64 MiB.
	SnapshotLogBytes int
	// SnapshotTailBytes is how many bytes of entries stay in the log when it is compacted, for followers that lag a
	// little. It is an estimate. A log that has fewer is not compacted, even on request. Default 16 MiB.
	SnapshotTailBytes int
	// SnapshotHoldBytes bounds the bytes of entries that a leader keeps beyond that for a follower that it hears,
	// because the follower needs them next. If the snapshot that is sent to the follower is larger, its size is the
	// bound until the follower has caught up; of a DurableFSM's frozen state, as much as the follower has of it. Default
	// 256 MiB.
	SnapshotHoldBytes int
}

// LimitBytesMax bounds every limit of bytes in memory. On 32-bit machines it is half of the largest int, so that no
// sum of two overflows.
const LimitBytesMax = min(1<<40, math.MaxInt/2)

func (l Limits) withDefaults() Limits {
	setDefault(&l.CommandBytesMax, 1<<20)
	setDefault(&l.ProposalsMax, 16<<10)
	setDefault(&l.ProposalBytesMax, 64<<20)
	setDefault(&l.UnappliedMax, 64<<10)
	setDefault(&l.AppendBytesMax, 1<<20)
	setDefault(&l.InflightMax, 256)
	setDefault(&l.InflightBytesMax, 8<<20)
	setDefault(&l.SnapshotEntries, 64<<10)
	setDefault(&l.SnapshotLogBytes, 64<<20)
	setDefault(&l.SnapshotTailBytes, 16<<20)
	setDefault(&l.SnapshotHoldBytes, 256<<20)
	return l
}
