package processes

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds.
const (
	Kill        Kind = "kill"
	KillAll     Kind = "kill-all"
	Pause       Kind = "pause"
	FullDisk    Kind = "full-disk"
	FailSync    Kind = "fail-sync"
	StallSync   Kind = "stall-sync"
	PowerCut    Kind = "power-cut"
	PowerCutAll Kind = "power-cut-all"
	Drop        Kind = "drop"
	Delay       Kind = "delay"
	OneWay      Kind = "one-way"
	Partition   Kind = "partition"
	HalfOpen    Kind = "half-open"
	Hold        Kind = "hold"
	DeadConn    Kind = "dead-conn"

	Away          Kind = "away"
	KillTaking    Kind = "kill-taking"
	KillSending   Kind = "kill-sending"
	KillReceiving Kind = "kill-receiving"

	Resize     Kind = "resize"
	Swap       Kind = "swap"
	Demote     Kind = "demote"
	Move       Kind = "move"
	Wipe       Kind = "wipe"
	OlderImage Kind = "older-image"
	Damage     Kind = "damage"
)

// lane is a group of mutually exclusive faults.
type lane int

const (
	processes lane = iota
	network
	changes // membership changes and lost disks
	lanes
)

// habit describes a kind of fault.
type habit struct {
	kind  Kind
	says  string
	lane  lane
	fuse  bool          // needs our own file system
	every time.Duration // average interval, in the whole cluster
	least time.Duration // the shortest duration
	most  time.Duration // the longest duration
	// leader is the percentage of these faults that are aimed at the leader. The other faults are aimed at a random member.
	leader int
}

const ms = time.Millisecond

// habits lists all kinds. Killing the leader is by far the most frequent fault: elections are where consensus breaks.
var habits = []habit{
	{Kill, "SIGKILL, mostly of the leader", processes, false, 2500 * ms, 50 * ms, 700 * ms, 90},
	{KillAll, "SIGKILL of all members at once", processes, false, 60_000 * ms, 50 * ms, 500 * ms, 0},
	{Pause, "SIGSTOP, and SIGCONT later", processes, false, 20_000 * ms, 100 * ms, 2500 * ms, 60},
	{Wipe, "a disk is emptied, and its member is replaced", changes, false, 15_000 * ms, 100 * ms, 500 * ms, 40},
	{FullDisk, "no room on a disk", processes, true, 25_000 * ms, 500 * ms, 3000 * ms, 60},
	{FailSync, "a disk whose syncs begin to fail", processes, true, 25_000 * ms, 500 * ms, 3000 * ms, 60},
	{StallSync, "a disk whose syncs are stalled or slow", processes, true, 25_000 * ms, 200 * ms, 3000 * ms, 60},
	{PowerCut, "one disk forgets unsynced writes", processes, true, 15_000 * ms, 50 * ms, 700 * ms, 60},
	{PowerCutAll, "all disks forget unsynced writes at once", processes, true, 30_000 * ms, 50 * ms, 700 * ms, 0},
	{Drop, "connections are reset", network, false, 10_000 * ms, 0, 0, 0},
	{Delay, "messages of one member arrive late", network, false, 15_000 * ms, 500 * ms, 4000 * ms, 50},
	{OneWay, "a link is cut in one direction", network, false, 12_000 * ms, 300 * ms, 4000 * ms, 50},
	{Partition, "the members are cut into two groups", network, false, 15_000 * ms, 300 * ms, 4000 * ms, 0},
	{HalfOpen, "links stay open, but nothing passes in one direction", network, false, 12_000 * ms, 300 * ms, 4000 * ms, 50},
	{Hold, "a link holds everything back in one direction, and passes it on later", network, false, 12_000 * ms, 300 * ms, 3000 * ms, 50},
	{DeadConn, "one of a member's connections stays open, but nothing passes; new ones work", network, false, 12_000 * ms, 1000 * ms, 5000 * ms, 90},
	{OlderImage, "a member comes back with an older copy of its disk, and is replaced", changes, false, 30_000 * ms, 500 * ms, 2000 * ms, 30},
	{Away, "SIGKILL, and a start once the leader's log no longer holds what the member lacks", processes, false, 25_000 * ms, 0, 0, 10},
	{KillTaking, "SIGKILL of a member that takes a snapshot", processes, false, 25_000 * ms, 50 * ms, 700 * ms, 50},
	{KillSending, "SIGKILL of a member that sends a snapshot to one that was away", processes, false, 40_000 * ms, 50 * ms, 700 * ms, 10},
	{KillReceiving, "SIGKILL of a member that was away and receives a snapshot", processes, false, 40_000 * ms, 50 * ms, 700 * ms, 10},
	{Damage, "a store is damaged, and its member is replaced", changes, false, 30_000 * ms, 100 * ms, 500 * ms, 30},
	{Resize, "the cluster grows to five members, or shrinks to three or one", changes, false, 12_000 * ms, 0, 1000 * ms, 50},
	{Swap, "a member is replaced by another one", changes, false, 30_000 * ms, 0, 0, 40},
	{Demote, "a voter becomes a learner, and a voter again", changes, false, 30_000 * ms, 0, 1000 * ms, 40},
	{Move, "a member comes back at another address", changes, false, 20_000 * ms, 0, 500 * ms, 40},
}

// Kinds describes all kinds of faults, a line each.
func Kinds() (lines []string) {
	for _, h := range habits {
		lines = append(lines, fmt.Sprintf("%-14s %s", h.kind, h.says))
	}
	return lines
}

func habitOf(k Kind) (habit, bool) {
	i := slices.IndexFunc(habits, func(h habit) bool { return h.kind == k })
	if i < 0 {
		return habit{}, false
	}
	return habits[i], true
}

// ParseKinds parses the names of kinds of faults.
func ParseKinds(names []string) (kinds []Kind, err error) {
	for _, name := range names {
		k := Kind(strings.TrimSpace(name))
		if _, found := habitOf(k); !found {
			return nil, fmt.Errorf("unknown fault %q; there are\n  %s", name, strings.Join(Kinds(), "\n  "))
		}
		if !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	return kinds, nil
}
