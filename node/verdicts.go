package node

import (
	"slices"
	"strings"

	"github.com/coxswain/raft"
)

// Severity says how urgent a verdict is.
type Severity string

// The severities, the most urgent one first.
const (
	Outage   Severity = "outage"   // the cluster does not serve, or may serve two states
	Degraded Severity = "degraded" // it serves, but a member does not count, or the next failure may stop it
	Notice   Severity = "notice"   // it serves fully; look at it by day
)

// Verdict is a problem that a member or a cluster may have. Status, Node.Ready, the logs, admin.Diagnose, raftkv and the runbook
// take all their statements about health from one table of verdicts.
type Verdict struct {
	Name     string // a contract, like the keys of Status's JSON; later releases may add names
	Severity Severity
	Counts   bool   // a voter with it still counts towards a quorum
	Means    string // one sentence
	Next     string // what to do first, often a command; ID stands for the member's id
}

// Runbook names the entry of the runbook: docs/runbook.md#disk-stalled.
func (v Verdict) Runbook() string {
	return "docs/runbook.md#" + strings.ToLower(strings.ReplaceAll(v.Name, " ", "-"))
}

// Finding is a verdict that applies, as seen from the member that made a status.
type Finding struct {
	Verdict string      // a name in Verdicts
	Member  raft.NodeID // the member that it is about; "": the cluster
	Says    string      // one sentence
}

// The verdicts that several packages name.
const (
	VerdictTwoClusters   = "two clusters"
	VerdictNotBegun      = "not begun"
	VerdictLinkCut       = "link cut"
	VerdictNotConnected  = "not connected"
	VerdictNotHeard      = "not heard"
	VerdictNoQuorum      = "no quorum"
	VerdictNoLeader      = "no leader"
	VerdictCertificate   = "certificate refused"
	VerdictEndsSoon      = "certificate ends"
	VerdictNotUsed       = "certificate not used"
	VerdictNoAnswer      = "no answer"
	VerdictAppliesLate   = "applies late"
	verdictOlderImage    = "older image"
	VerdictTimeout       = "timeout too short"
	verdictNoRoom        = "no room"
	verdictNoDescriptors = "no descriptors"
)

// Verdicts returns the table. Causes come before their effects: if several verdicts apply, the first one of the worst severity
// is the one to begin with.
func Verdicts() (all []Verdict) {
	for _, v := range verdicts {
		all = append(all, v.Verdict)
	}
	return all
}

// VerdictNamed returns the verdict with that name. It returns false if this release does not know it.
func VerdictNamed(name string) (Verdict, bool) {
	i := slices.IndexFunc(verdicts, func(v verdict) bool { return v.Name == name })
	if i < 0 {
		return Verdict{Name: name}, false
	}
	return verdicts[i].Verdict, true
}

// verdict is a row of the table.
type verdict struct {
	Verdict
	away bool // the member cannot be reached
	// says returns the verdict as a sentence about m, from the point of view of s. It returns "" if m does not have this
	// problem. The first of these verdicts that applies to a member becomes MemberStatus.Problem.
	says   func(s *Status, m *MemberStatus) string
	remedy string // what to do, if the sentence does not say it
	// beside returns every member, or "" for the cluster or the member itself, with this problem, and the sentence. Such a
	// verdict applies beside the others. A row without says and beside is found by admin.Diagnose or package member.
	beside func(s *Status) []Finding
}

// verdicts is the table.
var verdicts = slices.Concat(ofLostData, ofMembers, ofTheCluster, ofSettings)

// ofLostData are the verdicts about disks and processes that do not come back by themselves.
var ofLostData = []verdict{
	{Verdict: Verdict{"majority lost", Outage, true, "The disks of a majority of the voters are lost for good.",
		"put disks back until a majority of the voters runs on its own disks; empty nothing, start nothing anew"}, beside: findsMajorityLost},
	{Verdict: Verdict{VerdictTwoClusters, Outage, false, "Members of two clusters with one name are dialing each other, or were asked together.",
		"raftkv members --server URL, for each server: keep the cluster that has your data, and stop the members of the other one"}, says: saysOtherCluster, away: true},
	{Verdict: Verdict{VerdictNotBegun, Outage, true, "The cluster has not begun: it waits for members that have never answered.",
		"start every member of the list, with the same list and the same cluster name"}, beside: findsNotBegun},
	{Verdict: Verdict{verdictOlderImage, Degraded, false, "The member runs on an older copy of its disk, and has forgotten what it acknowledged.",
		"put the newest disk of ID back; if it is lost: mv DATA DATA.old, start ID with the empty directory, then raftkv members replace ID"}, says: saysOlderImage, away: true},
	{Verdict: Verdict{"contradicted", Degraded, false, "The cluster has lost writes that it had acknowledged, and this member's disk may be the last that holds them.",
		"stop ID, and copy its data directory before anything else"}, says: saysContradicted, away: true},
	{Verdict: Verdict{"removed", Degraded, false, "The member was removed from the cluster, and its process still runs.",
		"end the process of ID"}, says: saysRemoved},
	{Verdict: Verdict{"ended", Degraded, false, "The member has ended by itself, and said why.",
		"read the sentence above; repair what it names, and restart ID"}, says: saysEnded},
	{Verdict: Verdict{"emptied disk", Degraded, false, "The member runs on an empty disk, and the cluster knows it by its former one.",
		"raftkv members replace ID"}, says: saysEmptied, away: true},
	{Verdict: Verdict{"lost entries", Degraded, false, "The member's disk lost what it had acknowledged to the leader.",
		"raftkv members replace ID"}, says: saysStale, remedy: "replace it like one whose disk was lost"},
}

// ofMembers are the verdicts about members that may come back by themselves, or with a restart.
var ofMembers = []verdict{
	{Verdict: Verdict{VerdictCertificate, Degraded, false, "The two members do not accept each other's certificates.",
		"raftkv certs show --server URL,URL of all members: the authority of each (by) must be one that the others trust"}, says: saysCertificate, away: true},
	{Verdict: Verdict{"address changed", Degraded, false, "The member runs, but not at the address at which the others dial it.",
		"raftkv members address ID HOST:PORT URL, with the address where ID runs now"}, says: saysMoved, away: true},
	{Verdict: Verdict{VerdictLinkCut, Degraded, false, "Two members run, and do not reach each other.",
		"nc -vz HOST PORT, from each of the two machines to the Raft address of the other"}},
	{Verdict: Verdict{VerdictNotConnected, Degraded, false, "The member cannot be reached: its process or its machine is down.",
		"look whether the process of ID runs; if it has ended, the last lines of its log say why: repair that, and restart it; look at its data directory first"}, says: saysUnconnected, away: true},
	{Verdict: Verdict{VerdictNotHeard, Degraded, false, "The member is connected, but silent: its process is frozen, or its machine is overloaded.",
		"look at the machine of ID (top, dmesg); if the process is frozen, resume it or restart it"}, says: saysUnheard, away: true},
	{Verdict: Verdict{"suspected", Degraded, false, "A leader that the member does not know yet has shown that its disk lacks something; it does not vote for now.",
		"wait a minute, and run raftkv doctor again; if it lasts: raftkv members replace ID"}, says: saysSuspected},
	{Verdict: Verdict{"earlier release", Degraded, false, "The member runs a release that cannot follow the cluster any more.",
		"upgrade ID"}, says: saysEarlier, remedy: "upgrade it"},
	{Verdict: Verdict{"needs a snapshot", Degraded, false, "The member was away for so long that it needs a snapshot, and does not count until it has it.",
		"wait: raftkv status shows the progress"}, says: saysNeedsSnapshot},
	{Verdict: Verdict{verdictNoDescriptors, Degraded, false, "The member's process has no file descriptor left.",
		"restart ID with a higher limit (ulimit -n 65536), and find out what holds so many: ls -l /proc/PID/fd"}, says: saysNoDescriptors},
	// before "disk stalled", its effect on a write that waits for room
	{Verdict: Verdict{verdictNoRoom, Degraded, false, "The member's disk is full.",
		"df -h DATA, on the machine of ID: make room, and the member goes on by itself"}, says: saysNoRoom},
	{Verdict: Verdict{"disk stalled", Degraded, false, "A write to the member's disk does not return.",
		"dmesg, on the machine of ID: look for errors of the disk; if it does not come back, end the process"}, says: saysStalled},
	{Verdict: Verdict{"restoring", Degraded, false, "The member's state machine is being restored from a snapshot.",
		"wait: raftkv status shows the progress"}, says: saysRestoring},
	{Verdict: Verdict{"FSM hangs", Degraded, false, "One call of the member's state machine does not return.",
		"kill -QUIT PID, on the machine of ID: the process ends and prints what it waits for; then restart it"}, says: saysFSMHangs},
	{Verdict: Verdict{"hindered", Degraded, false, "Something that this release does not know keeps the member from serving.",
		"raftkv status --server URL, with the URL of ID"}, says: saysHindered}, // after the hindrances that have a name
	{Verdict: Verdict{"behind", Degraded, false, "The member does not keep up with the leader.",
		"iostat -x 1 and top, on the machine of ID: its disk, its processors or its network are too slow for the load"}, says: saysBehind},
	{Verdict: Verdict{VerdictAppliesLate, Degraded, true, "The member's state machine does not keep up with the log.",
		"top, on the machine of ID: its state machine is too slow for the load"}, says: saysAppliesLate},
}

// ofTheCluster are the verdicts about elections: most of them are effects of those above.
var ofTheCluster = []verdict{
	{Verdict: Verdict{VerdictTimeout, Degraded, true, "The election timeout is shorter than what the disks, the network or the processors need, so leaders are lost.",
		"restart the members one by one with the longer --election-timeout that the sentence above names"}, beside: findsShortTimeout},
	{Verdict: Verdict{VerdictNoQuorum, Outage, true, "Fewer than a majority of the voters work together, so nothing can be written.",
		"start the members that do not count, each on its own disk, one by one, until a majority runs"}, beside: findsNoQuorum},
	{Verdict: Verdict{VerdictNoLeader, Outage, true, "A majority of the voters runs, and has no leader.",
		"wait ten seconds, and run raftkv doctor again; if it lasts, the sentence above says why no member is elected"}, beside: findsNoLeader},
}

// ofSettings are the verdicts that stop nothing today.
var ofSettings = []verdict{
	{Verdict: Verdict{"disk slow", Notice, true, "Writes to the member's disk take a large part of the election timeout.",
		"iostat -x 1, on the machine of ID: use a faster disk, or give all members a longer --election-timeout"}, beside: findsSlowDisk},
	{Verdict: Verdict{"settings differ", Notice, true, "A setting that should be the same on all members is not.",
		"restart the members one by one with the same settings"}, beside: findsSettings},
	{Verdict: Verdict{"version skew", Notice, true, "The members run different releases.",
		"upgrade the members with the older release, one by one"}, beside: findsSkew},
	{Verdict: Verdict{"clock jump", Notice, true, "The wall clock of the member's machine was set, or the machine was suspended.",
		"timedatectl, on the machine of ID: let it synchronize its clock, and never suspend it"}, beside: findsClockJump},
	{Verdict: Verdict{VerdictEndsSoon, Notice, true, "The member's certificate, or that of an authority, ends soon or has ended.",
		"raftkv certs member --renew ID, where the authority is, and copy ID.pem to the machine of ID; no restart is needed"}},
	{Verdict: Verdict{VerdictNotUsed, Notice, true, "The member's certificate files were changed, and do not fit.",
		"correct the file that the sentence above names; the former certificate stays in use meanwhile"}},
	{Verdict: Verdict{"small disk", Notice, true, "The member's disk may be too small for its snapshots and its log.",
		"df -h DATA, on the machine of ID: give it a larger disk"}, beside: findsSmallDisk},
	{Verdict: Verdict{"snapshot fails", Notice, true, "The member cannot take a snapshot, so its log grows.",
		"read the sentence above, and repair what it names; raftkv snapshot ID tries again at once"}, beside: findsSnapshotFails},
	{Verdict: Verdict{VerdictNoAnswer, Notice, true, "The member's address for clients does not answer, although the other members hear it.",
		"curl URL/healthz, on the machine of ID; look at its log for errors of the HTTP server"}},
}
