package main

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// replica is one running member of a cluster. It works until its process is killed.
type replica interface {
	// Propose returns once this replica, which must lead, has applied the command. The command has at least 16 bytes. Many
	// goroutines call Propose with the same bytes, so Propose must not change them.
	Propose(ctx context.Context, command []byte) error
	// Leads reports whether this replica believes that it leads. It is cheap.
	Leads() bool
	// Applied returns how many commands the FSM has applied since this process began.
	Applied() uint64
}

// reader is a replica that can read.
type reader interface {
	// Reader returns the function with which callers prepare a read of this replica's FSM. The replica leads, or reads from a
	// follower. Many goroutines call the function. For reads by lease, Member.Leases is set.
	Reader(ctx context.Context, how reading) (func(context.Context) error, error)
}

// Member describes where and how a replica starts.
type Member struct {
	ID        int      // from 1
	Addresses []string // addresses of all members, in the order of their ids
	Dir       string   // directory of this member only
	// Tuned sets election timeouts of 150 to 300 ms instead of the library's defaults.
	Tuned bool
	// Keeps makes the member keep its whole log. If Keeps is false, the library's defaults decide when the log is compacted.
	Keeps bool
	// Sessions makes the members keep sessions.
	Sessions bool
	// Leases makes the leader answer reads by its lease.
	Leases bool
}

func (m Member) address() string { return m.Addresses[m.ID-1] }

// contestant is a library, or a library with one of its settings: one column of the tables.
type contestant struct {
	name    string
	modules []string // besides our own
	start   func(Member) (replica, error)
	reads   []reading // what it can do
	// reference means that the contestant does not count when the best of the others is chosen.
	reference bool
}

const (
	bbolt         = "go.etcd.io/bbolt"
	hashicorpRaft = "github.com/hashicorp/raft"
	raftBolt      = "github.com/hashicorp/raft-boltdb/v2"
	raftWAL       = "github.com/hashicorp/raft-wal"
	etcdRaft      = "go.etcd.io/raft/v3"
	etcdWAL       = "go.etcd.io/etcd/server/v3"
)

// ours is the prefix of the names of our columns.
const ours = "coxswain"

func (c contestant) ours() bool { return isOurs(c.name) }

var (
	everyRead         = []reading{linearizable, byLease, fromFollower}
	confirmedReads    = everyRead[:1]
	confirmedOrLeased = everyRead[:2]
)

// contestants are all columns.
var contestants = []contestant{
	{name: "coxswain-segments", modules: []string{bbolt}, reads: everyRead, start: startCoxswain(openLog)},
	{name: "coxswain-bbolt", modules: []string{bbolt}, reads: everyRead, start: startCoxswain(openBolt)},
	{name: "hashicorp-bolt", modules: []string{hashicorpRaft, raftBolt}, reads: confirmedReads, start: startHashicorp(openRaftBolt, byDefault)},
	{name: "hashicorp-bolt-1024", modules: []string{hashicorpRaft, raftBolt}, reads: confirmedReads, start: startHashicorp(openRaftBolt, bigBatches)},
	{name: "hashicorp-wal", modules: []string{hashicorpRaft, raftWAL}, reads: confirmedReads, start: startHashicorp(openRaftWAL, byDefault)},
	{name: "hashicorp-wal-1024", modules: []string{hashicorpRaft, raftWAL}, reads: confirmedReads, start: startHashicorp(openRaftWAL, bigBatches)},
	{name: "etcd-raft", modules: []string{etcdRaft, etcdWAL}, reads: confirmedOrLeased, start: startEtcdRaft(false, false)},
	{name: "etcd-raft-async", modules: []string{etcdRaft, etcdWAL}, reads: confirmedOrLeased, start: startEtcdRaft(true, false)},
	{name: etcdYields, modules: []string{etcdRaft, etcdWAL}, reads: confirmedOrLeased, start: startEtcdRaft(true, true), reference: true},
	{name: "dragonboat", modules: []string{"github.com/lni/dragonboat/v4"}, start: startDragonboat, reference: true},
}

// etcdYields is etcd-raft-async in a host that schedules like our node: it yields before it takes queued work.
const etcdYields = "etcd-raft-yields"

func contestantOf(name string) (contestant, bool) {
	i := slices.IndexFunc(contestants, func(c contestant) bool { return c.name == name })
	if i < 0 {
		return contestant{}, false
	}
	return contestants[i], true
}

// has reports whether the contestant can be measured in the cell.
func (c contestant) has(in cell) bool {
	return (in.Kind != reads || slices.Contains(c.reads, in.Read)) && (!in.Sessions || c.ours())
}

// patience bounds the time of a single command.
const patience = 10 * time.Second

// counter is the state of every FSM: it counts commands and their bytes.
type counter struct{ commands, bytes atomic.Uint64 }

func (c *counter) apply(command []byte) {
	c.commands.Add(1)
	c.bytes.Add(uint64(len(command)))
}

func (c *counter) Applied() uint64 { return c.commands.Load() }
