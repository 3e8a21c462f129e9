package raft

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// This file holds the settings of a core: their meaning, defaults and limits.

// CoreConfig configures a Core. A time or limit of zero means its default.
type CoreConfig struct {
	ID                NodeID        // required
	Initial           Configuration // node.Config.Initial, see ValidateList; empty: none
	NewCluster        ClusterID     // fresh and random, for the cluster that this member may bootstrap; required with Initial
	ElectionTimeout   time.Duration // see node.Config
	HeartbeatInterval time.Duration // default a third of ElectionTimeout, at most half of it
	DiskStallMax      time.Duration // see node.Config
	ApplyStallMax     time.Duration // see node.Config
	Seed              uint64        // of the random election timeouts; 0 is a seed like any other
	Snapshots         bool          // the storage is a SnapshotStorage: take and exchange snapshots; false: the log only grows
	AppVersion        uint64        // see node.Config
	DurableFSM        bool          // the FSM is a DurableFSM: compact the log up to what it has synced, without a file
	Preferences       Preferences   // the preferences that are switched off; zero: none
	Limits
}

// Preferences switches off rules about who campaigns, and when. None of these rules decides who may win, so members may have
// different preferences. The zero value switches nothing off.
type Preferences struct {
	NoNews       bool // a refused connection to the leader starts no election: only its silence does
	NoSuccessors bool // the leader names no successors, and this member follows no list of them
	NoPriorities bool // this member ignores the priorities of the configuration: they order no successors, and no leader transfers to a higher one
}

// WithDefaults returns the configuration with the defaults of NewCore.
func (c CoreConfig) WithDefaults() CoreConfig {
	setDefault(&c.ElectionTimeout, electionTimeoutDefault)
	setDefault(&c.HeartbeatInterval, c.ElectionTimeout/3)
	setDefault(&c.DiskStallMax, diskStallMaxDefault)
	setDefault(&c.ApplyStallMax, applyStallMaxDefault)
	c.Limits = c.Limits.withDefaults()
	return c
}

// Validate returns all problems of the configuration, joined, each a *ConfigError; nil: none. NewCore calls it.
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
	if err := initial.ValidateList(); err != nil {
		p.add("Initial", "%w", err)
	}
	for _, m := range initial.Members {
		if m.isOpen() && isBootstrapper(initial, id) {
			p.add("Initial", "member %q has no address; only the other members' lists may leave addresses open, since this member, "+
				"the voter with the lowest id, bootstraps the cluster with its own list", m.ID)
		}
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

// Limits bound what a member keeps and sends. node.Config and CoreConfig share them. A zero value means the default.
//
// The first two Snapshot limits say when a snapshot is taken, the others how much of the log stays. By itself, a member
// shortens its log only if that drops an eighth of SnapshotEntries or SnapshotLogBytes, since it costs a write. A requested
// snapshot shortens it to the tail and what followers need.
//
// Node.SetLimits changes the limits of a running member. Each field says from when on a new value counts. A lower value never
// takes back what a higher one has allowed: what waits, is in flight or is in the log stays until it is done.
type Limits struct {
	// CommandBytesMax bounds one command. Default 1 MiB; at most EntryDataBytesMax. A new value counts for the next proposal.
	// The other members are told it on the next connection, and until then their Status compares the former one.
	CommandBytesMax int
	// ProposalsMax bounds the proposals that wait for an answer, and the reads, each by itself. Default 16,384. A new value
	// counts for the next request.
	ProposalsMax int
	// ProposalBytesMax bounds the bytes of waiting proposals. The last may exceed it, so that large ones have a chance.
	// Default 64 MiB. A new value counts for the next proposal.
	ProposalBytesMax int
	// UnappliedMax bounds the entries in a leader's log that are not applied. Default 65,536. A new value counts for the next
	// proposal.
	UnappliedMax int
	// AppendBytesMax bounds the entries of one append message, which carries at least one entry. Default 1 MiB. It concerns
	// what this member sends, and no other member knows it. A new value counts for the next append.
	AppendBytesMax int
	// InflightMax bounds the unanswered append messages to one follower. Default 256. A new value counts for the next append.
	InflightMax int
	// InflightBytesMax bounds the bytes of those messages. The last may exceed it. Default 8 MiB. A new value counts for the
	// next append.
	InflightBytesMax int
	// SnapshotEntries is the number of applied entries after which a snapshot is taken. Default 65,536. A new value counts at
	// once: if it has been reached, a snapshot begins.
	SnapshotEntries int
	// SnapshotLogBytes is the number of bytes of applied entries after which a snapshot is taken, but at least the size of the
	// last snapshot. Default 64 MiB. A new value counts at once, like that of SnapshotEntries.
	SnapshotLogBytes int
	// SnapshotTailBytes is about how many bytes of entries always stay, for followers that lag a little. Default 16 MiB. A new
	// value counts at once: a lower one shortens the log, and after a higher one, the log grows.
	SnapshotTailBytes int
	// SnapshotHoldBytes bounds the entries beyond the tail that a leader keeps for a live follower that needs them next. A
	// larger snapshot sent to the follower raises the bound to its size. A DurableFSM's frozen state raises it to as much as
	// the follower has. Default 256 MiB. A new value counts at once, like that of SnapshotTailBytes.
	SnapshotHoldBytes int
}

// onLimitsChanged puts other limits in force. A lower limit may allow a shorter log.
func (c *Core) onLimitsChanged(l Limits) {
	l = l.withDefaults()
	var p configProblems
	p.limits(l)
	assert(len(p) == 0, "limits are checked before they change")
	c.cfg.Limits = l
	c.compact()
}

// LimitBytesMax bounds limits in bytes, so that two of them can be added.
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
