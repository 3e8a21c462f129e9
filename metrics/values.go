package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
)

// values lists every number, in the order of docs/metrics.md.
var values = []value[node.Metrics]{
	gauge("term", "The current term.", func(m node.Metrics) float64 { return float64(m.Term) }),
	gauge("leading", "1 while this member leads.", func(m node.Metrics) float64 { return truth(m.Leading) }),
	gauge("leader_known", "1 while a leader is known.",
		func(m node.Metrics) float64 { return truth(m.LeaderKnown) }),
	gauge("wiped", "1 while this member's disk is known to have been emptied.",
		func(m node.Metrics) float64 { return truth(m.Wiped) }),
	gauge("removed", "1: this member was removed from the cluster.",
		func(m node.Metrics) float64 { return truth(m.Removed) }),
	gauge("voters", "Voters of the configuration in force; while they change, the new ones.",
		func(m node.Metrics) float64 { return float64(m.Voters) }),
	gauge("learners", "Learners of the configuration in force.",
		func(m node.Metrics) float64 { return float64(m.Learners) }),
	gauge("configuration_index", "The entry that holds the configuration in force.",
		func(m node.Metrics) float64 { return float64(m.ConfigIndex) }),
	gauge("configuration_joint", "1 while the voters change.",
		func(m node.Metrics) float64 { return truth(m.ConfigJoint) }),
	gauge("feature_level", "The feature level of the cluster.",
		func(m node.Metrics) float64 { return float64(m.FeatureLevel) }),
	gauge("settings_differ", "Members whose settings differ from this member's.",
		func(m node.Metrics) float64 { return float64(m.SettingsDiffer) }),
	changes("done", func(c node.ChangeOutcomes) uint64 { return c.Done }),
	changes("refused", func(c node.ChangeOutcomes) uint64 { return c.Refused }),
	changes("given_up", func(c node.ChangeOutcomes) uint64 { return c.GivenUp }),
	changes("unknown", func(c node.ChangeOutcomes) uint64 { return c.Unknown }),
	gauge("last_index", "The last entry of the log.",
		func(m node.Metrics) float64 { return float64(m.LastIndex) }),
	gauge("persisted_index", "The last entry on this disk.",
		func(m node.Metrics) float64 { return float64(m.PersistedIndex) }),
	gauge("commit_index", "The last entry that is committed and on this disk.",
		func(m node.Metrics) float64 { return float64(m.CommitIndex) }),
	gauge("applied_index", "The last entry that the FSM has applied.",
		func(m node.Metrics) float64 { return float64(m.AppliedIndex) }),
	gauge("applying_seconds", "How long the running call of the FSM, or function of Node.Read, has been running; 0 if none is.",
		func(m node.Metrics) float64 { return m.ApplyingSeconds }),
	counter("elections_total", "Elections that this member began.",
		func(m node.Metrics) float64 { return float64(m.Elections) }),
	leaderChanges("followed", followed),
	tookOver(raft.CauseSilence), tookOver(raft.CauseNews), tookOver(raft.CauseSteppedDown),
	tookOver(raft.CauseTransfer), tookOver(raft.CauseTakeover), tookOver(raft.CauseBootstrap),
	counter("disk_stalls_total", "How often this member's disk stalled for DiskStallMax while it led.",
		func(m node.Metrics) float64 { return float64(m.DiskStalls) }),
	counter("fsm_hangs_total", "How often this member's FSM hung for ApplyStallMax in one batch while it led.",
		func(m node.Metrics) float64 { return float64(m.FSMHangs) }),
	gauge("no_room", "1 while the disk has no room for more entries of the log.",
		func(m node.Metrics) float64 { return truth(m.NoRoom) }),
	counter("late_wakes_total", "How often the loop woke more than half an election timeout after its deadline.",
		func(m node.Metrics) float64 { return float64(m.LateWakes) }),
	counter("stale_members_total", "How often this member, as leader, found a member that holds less than it has acknowledged.",
		func(m node.Metrics) float64 { return float64(m.StaleMembers) }),
	gauge("snapshot_index", "The last entry that the newest snapshot covers.",
		func(m node.Metrics) float64 { return float64(m.SnapshotIndex) }),
	gauge("snapshot_bytes", "Bytes of the newest snapshot.",
		func(m node.Metrics) float64 { return float64(m.SnapshotBytes) }),
	gauge("log_base_index", "The log begins behind this entry.",
		func(m node.Metrics) float64 { return float64(m.LogBaseIndex) }),
	gauge("log_bytes", "About the bytes of the entries in the log, whose files take more; 0 if the storage keeps no snapshots.",
		func(m node.Metrics) float64 { return float64(m.LogBytes) }),
	snapshots("taken", func(s node.SnapshotCounts) uint64 { return s.Taken }),
	snapshots("failed", func(s node.SnapshotCounts) uint64 { return s.Failed }),
	snapshots("sent", func(s node.SnapshotCounts) uint64 { return s.Sent }),
	snapshots("resumed", func(s node.SnapshotCounts) uint64 { return s.Resumed }),
	snapshots("received", func(s node.SnapshotCounts) uint64 { return s.Received }),
	snapshots("refused", func(s node.SnapshotCounts) uint64 { return s.Refused }),
	snapshots("restored", func(s node.SnapshotCounts) uint64 { return s.Restored }),
	snapshots("backed_up", func(s node.SnapshotCounts) uint64 { return s.BackedUp }),
	snapshots("backup_failed", func(s node.SnapshotCounts) uint64 { return s.BackupsFailed }),
	counter("snapshot_bytes_sent_total", "Bytes of snapshots sent, with repetitions.",
		func(m node.Metrics) float64 { return float64(m.SnapshotBytesSent) }),
	counter("snapshot_bytes_received_total", "Bytes of snapshots written that a leader sent.",
		func(m node.Metrics) float64 { return float64(m.SnapshotBytesReceived) }),
	counter("steps_total", "Steps of the core.", func(m node.Metrics) float64 { return float64(m.Steps) }),

	counter("proposals_total", "Proposals that were answered.",
		func(m node.Metrics) float64 { return float64(m.Proposals) }),
	failed("not_leader", func(f node.ProposalFailures) uint64 { return f.NotLeader }),
	failed("overloaded", func(f node.ProposalFailures) uint64 { return f.Overloaded }),
	failed("too_large", func(f node.ProposalFailures) uint64 { return f.TooLarge }),
	failed("unknown", func(f node.ProposalFailures) uint64 { return f.Unknown }),
	failed("other", func(f node.ProposalFailures) uint64 { return f.Other }),
	forwards("sent", func(f node.ForwardOutcomes) uint64 { return f.Sent }),
	forwards("not_applied", func(f node.ForwardOutcomes) uint64 { return f.NotApplied }),
	forwards("unknown", func(f node.ForwardOutcomes) uint64 { return f.Unknown }),
	forwards("refused", func(f node.ForwardOutcomes) uint64 { return f.Refused }),
	counter("reads_total", "Linearizable reads that were requested.",
		func(m node.Metrics) float64 { return float64(m.Reads) }),
	staleReads("served", func(m node.Metrics) uint64 { return m.StaleReads }),
	staleReads("refused", func(m node.Metrics) uint64 { return m.StaleReadsRefused }),
	gauge("leased", "1 while this member leads and has a lease.",
		func(m node.Metrics) float64 { return truth(m.Leased) }),
	counter("lease_reads_total", "Reads that a lease has answered.",
		func(m node.Metrics) float64 { return float64(m.LeaseReads) }),
	counter("lease_fallbacks_total", "Reads by lease for which there was no lease.",
		func(m node.Metrics) float64 { return float64(m.LeaseFallbacks) }),
	counter("commands_applied_total", "Commands that the FSM has applied.",
		func(m node.Metrics) float64 { return float64(m.CommandsApplied) }),

	counter("writes_total", "Storage writes.", func(m node.Metrics) float64 { return float64(m.Writes) }),
	counter("entries_written_total", "Entries written.",
		func(m node.Metrics) float64 { return float64(m.EntriesWritten) }),
	counter("entry_bytes_written_total", "Bytes of entries written.",
		func(m node.Metrics) float64 { return float64(m.EntryBytesWritten) }),
	counter("messages_sent_total", "Messages sent.",
		func(m node.Metrics) float64 { return float64(m.MessagesSent) }),
	counter("entries_sent_total", "Entries sent.",
		func(m node.Metrics) float64 { return float64(m.EntriesSent) }),
	counter("messages_received_total", "Messages received.",
		func(m node.Metrics) float64 { return float64(m.MessagesReceived) }),
	counter("messages_refused_total", "Messages received that no correct member sends.",
		func(m node.Metrics) float64 { return float64(m.MessagesRefused) }),
	dropped("queue_full", func(d node.Drops) uint64 { return d.QueueFull }),
	dropped("send", func(d node.Drops) uint64 { return d.Send }),
	dropped("stale", func(d node.Drops) uint64 { return d.Stale }),
	dropped("received", func(d node.Drops) uint64 { return d.Received }),
	dropped("oversized", func(d node.Drops) uint64 { return d.Oversized }),
	dropped("forged", func(d node.Drops) uint64 { return d.Forged }),
	dropped("events", func(d node.Drops) uint64 { return d.Events }),
	counter("connections_total", "Connections that were established.",
		func(m node.Metrics) float64 { return float64(m.Connections) }),
	counter("connections_lost_total", "Connections that broke or could not be established.",
		func(m node.Metrics) float64 { return float64(m.ConnectionsLost) }),

	gauge("waiting_proposals", "Pending calls of Propose, ProposeAsync and Barrier.",
		func(m node.Metrics) float64 { return float64(m.WaitingProposals) }),
	gauge("waiting_proposal_bytes", "Bytes of their commands.",
		func(m node.Metrics) float64 { return float64(m.WaitingProposalBytes) }),
	gauge("waiting_reads", "Pending calls of ReadIndex.",
		func(m node.Metrics) float64 { return float64(m.WaitingReads) }),
	gauge("waiting_received", "Messages that wait for the loop.",
		func(m node.Metrics) float64 { return float64(m.WaitingReceived) }),
	gauge("waiting_received_bytes", "Bytes of the entries in them.",
		func(m node.Metrics) float64 { return float64(m.WaitingReceivedBytes) }),
	gauge("waiting_writes", "Writes that wait for the disk.",
		func(m node.Metrics) float64 { return float64(m.WaitingWrites) }),
	gauge("waiting_write_bytes", "Bytes of entries that are not on the disk.",
		func(m node.Metrics) float64 { return float64(m.WaitingWriteBytes) }),
	gauge("waiting_sends", "Messages that wait for connections.",
		func(m node.Metrics) float64 { return float64(m.WaitingSends) }),
}

func failed(reason string, read func(node.ProposalFailures) uint64) value[node.Metrics] {
	return byReason("proposals_failed_total", "Proposals that failed, by the error that the caller got.", reason,
		func(m node.Metrics) float64 { return float64(read(m.ProposalsFailed)) })
}

func leaderChanges(reason string, read func(node.Metrics) float64) value[node.Metrics] {
	return byReason("leader_changes_total", "How often another leader became known, by the reason why this member took over; followed: another one did.",
		reason, read)
}

func tookOver(cause raft.Cause) value[node.Metrics] {
	return leaderChanges(cause.String(), func(m node.Metrics) float64 { return float64(m.TookOver[cause]) })
}

// followed counts the changes to a leader that is not this member.
func followed(m node.Metrics) float64 {
	count := m.LeaderChanges
	for _, took := range m.TookOver {
		count -= took
	}
	return float64(count)
}

func changes(outcome string, read func(node.ChangeOutcomes) uint64) value[node.Metrics] {
	return value[node.Metrics]{
		describe("changes_total", "Calls that change the members, by what became of them.", prometheus.Labels{"outcome": outcome}),
		prometheus.CounterValue,
		func(m node.Metrics) float64 { return float64(read(m.Changes)) },
	}
}

func forwards(outcome string, read func(node.ForwardOutcomes) uint64) value[node.Metrics] {
	return value[node.Metrics]{
		describe("forwards_total", "Requests between members: sent to the leader, and what became of them; refused: from others.", prometheus.Labels{"outcome": outcome}),
		prometheus.CounterValue,
		func(m node.Metrics) float64 { return float64(read(m.Forwards)) },
	}
}

func staleReads(outcome string, read func(node.Metrics) uint64) value[node.Metrics] {
	return value[node.Metrics]{
		describe("stale_reads_total", "Reads of a state that may be old: served, or refused as too old.", prometheus.Labels{"outcome": outcome}),
		prometheus.CounterValue,
		func(m node.Metrics) float64 { return float64(read(m)) },
	}
}

func snapshots(outcome string, read func(node.SnapshotCounts) uint64) value[node.Metrics] {
	return value[node.Metrics]{
		describe("snapshots_total", "Snapshots, by what became of them.", prometheus.Labels{"outcome": outcome}), prometheus.CounterValue,
		func(m node.Metrics) float64 { return float64(read(m.Snapshots)) },
	}
}

func dropped(reason string, read func(node.Drops) uint64) value[node.Metrics] {
	return byReason("dropped_total", "Messages and events dropped.", reason,
		func(m node.Metrics) float64 { return float64(read(m.Dropped)) })
}

func histogram(name, help string, read func(node.Metrics) node.Histogram) distribution {
	return distribution{describe(name, help, nil), read}
}

// distributions lists every histogram, in the order of docs/metrics.md.
var distributions = []distribution{
	histogram("propose_seconds", "Propose, from call to answer, if it succeeded.",
		func(m node.Metrics) node.Histogram { return m.ProposeSeconds }),
	histogram("write_seconds", "A storage write with its sync.",
		func(m node.Metrics) node.Histogram { return m.WriteSeconds }),
	histogram("write_entries", "Entries in one storage write.",
		func(m node.Metrics) node.Histogram { return m.WriteEntries }),
	histogram("apply_seconds", "One FSM.Apply.", func(m node.Metrics) node.Histogram { return m.ApplySeconds }),
	histogram("apply_commands", "Commands in one FSM.Apply.",
		func(m node.Metrics) node.Histogram { return m.ApplyCommands }),
	histogram("freeze_seconds", "One FSM.Snapshot or, of a DurableFSM, one Sync.", func(m node.Metrics) node.Histogram { return m.FreezeSeconds }),
	histogram("snapshot_write_seconds", "Writing one snapshot, behind FSM.Snapshot.",
		func(m node.Metrics) node.Histogram { return m.SnapshotWriteSeconds }),
	histogram("restore_seconds", "One FSM.Restore.", func(m node.Metrics) node.Histogram { return m.RestoreSeconds }),
	histogram("step_seconds", "One Step of the core.",
		func(m node.Metrics) node.Histogram { return m.StepSeconds }),
	histogram("step_events", "Events in one Step.", func(m node.Metrics) node.Histogram { return m.StepEvents }),
}
