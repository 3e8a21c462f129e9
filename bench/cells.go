package main

import (
	"fmt"
	"slices"
	"time"
)

// cell is one workload: a row of the tables. Its zero fields are not printed in the results, so that a later field does not
// change the cells of earlier results.
type cell struct {
	Kind     kind    `json:"kind"`
	Callers  int     `json:"callers,omitempty"`
	Rate     float64 `json:"rate,omitempty"`  // open loop
	Bytes    int     `json:"bytes,omitempty"` // of a command
	Entries  int64   `json:"entries,omitempty"`
	Kills    int     `json:"kills,omitempty"`
	Replicas int     `json:"replicas,omitempty"`
	Apart    bool    `json:"apart,omitempty"` // each replica in its own process
	Tuned    bool    `json:"tuned,omitempty"` // election timeouts of 150 to 300 ms, instead of the library's defaults
	Follower string  `json:"follower,omitempty"`
	// Rest is how long the cluster stays idle after the load, before its memory is measured again.
	Rest time.Duration `json:"rest,omitempty"`
}

// kind is what is done to a cluster.
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

// keeps reports whether the whole log has to be kept, because it is what is measured.
func (c cell) keeps() bool {
	return c.Kind == restart || c.Kind == catchUp
}

// openCallers bounds how many operations of an open loop run at once.
const openCallers = 4096

// loop is a closed loop on three replicas in one process.
func loop(callers, bytes int) cell {
	return cell{Kind: closedLoop, Callers: callers, Bytes: bytes, Replicas: 3}
}

// at is an open loop on three replicas in one process.
func at(rate float64) cell {
	return cell{Kind: openLoop, Rate: rate, Callers: openCallers, Bytes: 128, Replicas: 3}
}

// apart is a closed loop on replicas in processes of their own.
func apart(replicas int, follower string) cell {
	return cell{Kind: closedLoop, Callers: 256, Bytes: 128, Replicas: replicas, Apart: true, Follower: follower}
}

func replay(k kind, entries int64) cell {
	return cell{Kind: k, Entries: entries, Callers: 256, Bytes: 128, Replicas: 3, Apart: true, Tuned: true}
}

// restAfter is long enough for a cache that idles to shrink: ours does after ten seconds.
const restAfter = 12 * time.Second

// rested is the healthy cluster with which others are compared, and after its load it is left alone.
func rested() cell {
	c := apart(3, "")
	c.Rest = restAfter
	return c
}

// coreTiers are measured in about 50 minutes, what matters most first.
var coreTiers = []tier{
	{
		{Kind: limits},
		loop(64, 128), loop(256, 128), loop(1024, 128), loop(1, 128),
		replay(restart, 200_000), apart(3, followerStopped), rested(),
	},
	{
		loop(64, 16), loop(256, 16), loop(1024, 16), loop(64, 1<<10), loop(256, 1<<10), loop(1024, 1<<10),
		loop(16, 128), loop(16, 64<<10),
	},
	{
		at(20_000), at(100_000),
		{Kind: failover, Kills: 3, Replicas: 3, Apart: true, Tuned: true},
		{Kind: idle, Replicas: 3, Apart: true, Tuned: true},
		apart(5, ""), apart(3, followerSlow), replay(restart, 50_000),
	},
}

// otherCells complete the full set.
var otherCells = tier{
	loop(1, 16), loop(16, 16), loop(1, 1<<10), loop(16, 1<<10),
	loop(1, 64<<10), loop(64, 64<<10), loop(256, 64<<10), loop(1024, 64<<10),
	at(2_000), at(5_000), at(10_000), at(50_000),
	apart(7, ""),
	{Kind: closedLoop, Callers: 256, Bytes: 128, Replicas: 5}, {Kind: closedLoop, Callers: 256, Bytes: 128, Replicas: 7},
	{Kind: failover, Kills: 3, Replicas: 3, Apart: true},
	replay(catchUp, 200_000),
	{Kind: idle, Replicas: 3, Apart: true},
}

// storeCells compare the demo store with etcd.
var storeCells = tier{
	{Kind: store, Callers: 1, Bytes: 128, Replicas: 3, Apart: true},
	{Kind: store, Callers: 64, Bytes: 128, Replicas: 3, Apart: true},
	{Kind: store, Callers: 256, Bytes: 128, Replicas: 3, Apart: true},
	{Kind: store, Rate: 2_000, Callers: openCallers, Bytes: 128, Replicas: 3, Apart: true},
}

// sets are what --set takes.
var sets = map[string][]tier{
	"core": coreTiers, "full": append(slices.Clip(coreTiers), otherCells, storeCells), "stores": {storeCells},
}

// reference names the contestants that only the full set measures.
var reference = []string{"hashicorp-bolt", "hashicorp-wal", "dragonboat"}

// notInCore reports whether the core set leaves a contestant out of a cell. hashicorp/raft on bolt stands beside ours on bolt
// in a few cells: it is never the best of the others.
func notInCore(c cell, contestant string) bool {
	if contestant == "hashicorp-bolt-1024" {
		return c.Kind != restart && (c.Kind != closedLoop || c.Bytes != 128 || c.Apart)
	}
	return slices.Contains(reference, contestant)
}

// quick makes a cell small, to try that it works.
func (c cell) quick() cell {
	c.Entries = min(c.Entries, 20_000)
	c.Kills = min(c.Kills, 1)
	c.Rest = min(c.Rest, time.Second)
	return c
}

func allCells() []cell { return slices.Concat(sets["full"]...) }
