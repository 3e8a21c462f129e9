package main

import (
	"fmt"
	"slices"
	"time"
)

// cell is one workload: a row of the tables. A field that is zero is not printed in the results. So if a new field is added,
// the cells of earlier results stay the same.
type cell struct {
	Kind     kind    `json:"kind"`
	Callers  int     `json:"callers,omitempty"`
	Rate     float64 `json:"rate,omitempty"`  // open loop
	Bytes    int     `json:"bytes,omitempty"` // of a command
	Entries  int64   `json:"entries,omitempty"`
	Kills    int     `json:"kills,omitempty"`
	Replicas int     `json:"replicas,omitempty"`
	Apart    bool    `json:"apart,omitempty"` // each replica runs in its own process
	Tuned    bool    `json:"tuned,omitempty"` // election timeouts of 150 to 300 ms, instead of the library's defaults
	Follower string  `json:"follower,omitempty"`
	Read     reading `json:"read,omitempty"`     // how fresh the state must be
	Sessions bool    `json:"sessions,omitempty"` // each caller proposes in a session of its own
	// Rest is the idle time after the load, before the cluster's memory is measured again.
	Rest time.Duration `json:"rest,omitempty"`
}

// kind is the scenario of a cell.
type kind string

const (
	closedLoop kind = "closed loop"
	openLoop   kind = "open loop"
	failover   kind = "failover"
	restart    kind = "restart"
	catchUp    kind = "catch-up"
	idle       kind = "idle"
	limits     kind = "limits of the machine"
	store      kind = "store"
	reads      kind = "reads"
)

// reading is how fresh the state must be that a read sees.
type reading string

const (
	linearizable reading = "linearizable"
	byLease      reading = "by lease"
	fromFollower reading = "stale, from a follower"
)

// The states of the one follower.
const (
	followerStopped = "stopped"
	followerSlow    = "with a slow disk"
)

func (c cell) String() string {
	text := string(c.Kind)
	add := func(when bool, format string, args ...any) {
		if when {
			text += fmt.Sprintf(format, args...)
		}
	}
	add(c.Rate > 0, ", %s a second", thousands(int64(c.Rate)))
	add(c.Rate == 0 && c.Entries == 0 && c.Callers == 1, ", 1 caller")
	add(c.Rate == 0 && c.Entries == 0 && c.Callers > 1, ", %s callers", thousands(int64(c.Callers)))
	add(c.Entries > 0, ", %s entries", thousands(c.Entries))
	add(c.Bytes > 0, ", %s", size(c.Bytes))
	add(c.Replicas > 0 && c.Replicas != 3, ", %d replicas", c.Replicas)
	add(c.Apart, ", own processes")
	add(c.Follower != "", ", one follower %s", c.Follower)
	add(c.Read != "", ", %s", c.Read)
	add(c.Sessions, ", in sessions")
	add(c.Tuned, ", 150–300 ms")
	add(c.Rest > 0, ", then %g s idle", c.Rest.Seconds())
	return text
}

func size(bytes int) string {
	switch {
	case bytes >= mebi && bytes%mebi == 0:
		return fmt.Sprintf("%d MiB", bytes/mebi)
	case bytes >= 1<<10 && bytes%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d B", bytes)
}

// keeps reports whether the replicas must keep the whole log, because the cell measures how long they take to read or send
// it.
func (c cell) keeps() bool {
	return c.Kind == restart || c.Kind == catchUp
}

// halfPeak is about half of the highest throughput of the other libraries in a closed loop of many callers, in operations a
// second.
const halfPeak = 150_000

// openCallers bounds the concurrent operations of an open loop.
const openCallers = 4096

// loop returns a closed loop on three replicas in one process.
func loop(callers, bytes int) cell {
	return cell{Kind: closedLoop, Callers: callers, Bytes: bytes, Replicas: 3}
}

// inSessions returns a closed loop in which each caller has a session.
func inSessions(callers, bytes int) cell {
	c := loop(callers, bytes)
	c.Sessions = true
	return c
}

// at returns an open loop on three replicas in one process.
func at(rate float64) cell {
	return cell{Kind: openLoop, Rate: rate, Callers: openCallers, Bytes: 128, Replicas: 3}
}

// inOne returns a closed loop on more than three replicas in one process.
func inOne(replicas int) cell {
	return cell{Kind: closedLoop, Callers: 256, Bytes: 128, Replicas: replicas}
}

// apart returns a closed loop on replicas in separate processes.
func apart(replicas int, follower string) cell {
	return cell{Kind: closedLoop, Callers: 256, Bytes: 128, Replicas: replicas, Apart: true, Follower: follower}
}

func replay(k kind, entries int64) cell {
	return cell{Kind: k, Entries: entries, Callers: 256, Bytes: 128, Replicas: 3, Apart: true, Tuned: true}
}

// restAfter is long enough for an idle cache to shrink. The cache of this library shrinks after ten seconds.
const restAfter = 12 * time.Second

// rested returns the cell of a healthy cluster, with an idle time after its load. The cells with a faulty follower are
// compared with this cell.
func rested() cell {
	c := apart(3, "")
	c.Rest = restAfter
	return c
}

// The core set takes about 45 minutes. The most important cells come first.
var (
	firstCells = []cell{
		{Kind: limits},
		loop(64, 128), loop(256, 128), inSessions(256, 128), loop(1024, 128), loop(1, 128), loop(16, 128),
		replay(restart, 200_000), apart(3, followerStopped), rested(),
	}
	secondCells = []cell{
		loop(64, 16), loop(256, 16), loop(1024, 16), loop(64, 1<<10), loop(256, 1<<10), loop(1024, 1<<10),
		loop(16, 64<<10), at(halfPeak),
	}
	thirdCells = []cell{
		apart(5, ""), apart(3, followerSlow), replay(restart, 50_000),
		{Kind: failover, Kills: 3, Replicas: 3, Apart: true, Tuned: true},
		{Kind: failover, Kills: 3, Replicas: 3, Apart: true},
		replay(catchUp, 200_000),
	}
	lastCells = []cell{
		{Kind: idle, Replicas: 3, Apart: true, Tuned: true},
		apart(7, ""), at(20_000), replay(restart, 800_000),
		loop(1, 16), loop(16, 16), loop(1, 1<<10), loop(16, 1<<10),
		loop(1, 64<<10), loop(64, 64<<10), loop(256, 64<<10), loop(1024, 64<<10),
		inOne(5), inOne(7),
	}
)

// otherCells complete the full set.
var otherCells = []cell{
	at(2_000), at(5_000), at(10_000), at(50_000), at(100_000),
	{Kind: idle, Replicas: 3, Apart: true},
}

// storeCells compare the demo store with etcd.
var storeCells = []cell{
	{Kind: store, Callers: 1, Bytes: 128, Replicas: 3, Apart: true},
	{Kind: store, Callers: 64, Bytes: 128, Replicas: 3, Apart: true},
	{Kind: store, Callers: 256, Bytes: 128, Replicas: 3, Apart: true},
	{Kind: store, Rate: 2_000, Callers: openCallers, Bytes: 128, Replicas: 3, Apart: true},
}

var readCallers = []int{1, 64, 1024}

// readCells are closed loops of reads on three replicas in one process, without writes.
var readCells = func() (cells []cell) {
	for _, callers := range readCallers {
		for _, how := range []reading{linearizable, byLease, fromFollower} {
			cells = append(cells, read(callers, how))
		}
	}
	return cells
}()

func read(callers int, how reading) cell {
	return cell{Kind: reads, Callers: callers, Replicas: 3, Read: how}
}

// allRounds is the smallest number of rounds that gives a 95 % interval. fewRounds gives only the order of magnitude of a
// figure.
const (
	allRounds = 6
	fewRounds = 2
)

// sets are the values of --set.
var sets = map[string][]tier{
	"core": {
		{allRounds, firstCells}, {allRounds, secondCells}, {allRounds, thirdCells}, {allRounds, storeCells}, {allRounds, readCells},
		{fewRounds, lastCells},
	},
	"full": {
		{allRounds, firstCells}, {allRounds, secondCells}, {allRounds, thirdCells}, {allRounds, storeCells}, {allRounds, readCells},
		{allRounds, lastCells}, {allRounds, otherCells},
	},
	"stores": {{allRounds, storeCells}},
	"reads":  {{allRounds, readCells}},
}

// Only the full set measures these contestants in every cell. The core set omits the contestants of onlyInFull. It measures
// those of inFewCells, which store on bbolt, in a few cells: they are slower than the same library on a log.
var (
	onlyInFull = []string{"hashicorp-bolt", "hashicorp-wal", "dragonboat"}
	inFewCells = []string{"coxswain-bbolt", "hashicorp-bolt-1024"}
)

// notInCore reports whether the core set omits a contestant from a cell.
func notInCore(c cell, contestant string) bool {
	if c.Kind == reads { // which need neither a disk nor batches of entries
		return !slices.Contains([]string{"coxswain-segments", "hashicorp-wal-1024", "etcd-raft"}, contestant)
	}
	if contestant == etcdYields {
		return c.Kind != closedLoop || c.Apart || c.Replicas != 3
	}
	if slices.Contains(inFewCells, contestant) {
		return c != replay(restart, 200_000) && c != loop(c.Callers, 128)
	}
	return slices.Contains(onlyInFull, contestant)
}

// quick makes a cell small, for a trial.
func (c cell) quick() cell {
	c.Entries = min(c.Entries, 20_000)
	c.Kills = min(c.Kills, 1)
	c.Rest = min(c.Rest, time.Second)
	return c
}

func allCells() []cell {
	return slices.Concat(firstCells, secondCells, thirdCells, storeCells, readCells, lastCells, otherCells)
}
