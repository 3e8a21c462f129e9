package zoo

// recovered is a mutant that is hunted with recoveries, and that tests of the core kill, too.
func recovered(id, rule, bug, expect string, edits ...Edit) Mutant {
	return mutant(id, rule, bug, expect, edits...).arranged().profiles("recoveries").or("TestRecovery_")
}

// recoveries: one survivor's log as that of a new cluster, and backups, which the simulator does not take.
var recoveries = []Mutant{
	recovered("V110", "a later term does not forget the cluster of a recovery", "it does", "G28",
		before("raft.go", `c.endBallot(false)
	c.hard = `, `c.hard.Cluster = ClusterID{}`)).must(),
	recovered("V111", "a recovery raises the term beyond those of the lost members", "it raises it by one", "G27",
		value("recovery.go", `max(s.Hard.Term, s.Log.Last.Term) + recoveryTermJump`, `max(s.Hard.Term, s.Log.Last.Term) + 1`)),
	recovered("V112", "the base of a recovered log names the new cluster", "it names the former one", "G27",
		instead("recovery.go", `r.Base.Cluster = cluster`, ``)),
	recovered("V113", "a new member notes the cluster of a recovery with its first entries", "it does not", "G28",
		instead("append.go", `c.hard.Cluster = of`, ``)),
	recovered("V117", "the survivor holds what another disk knows to be committed", "its last entry has the highest term", "G26",
		value("recovery.go", `l.has(known)`, `true`)),
	recovered("V118", "the survivor's last entry has the highest term", "it has the highest index", "G26",
		value("recovery.go", `upToDate(stores[best].Log.Last, l.Last)`, `stores[best].Log.Last.Index >= l.Last.Index`)),
	recovered("V119", "a snapshot of the former cluster becomes one of the new cluster", "it stays one of the former cluster", "G27",
		instead("recovery.go", `r.Snapshot.Cluster = cluster`, ``)),
	recovered("V120", "the new term is above the durable term", "it is above that of the last entry", "G27",
		value("recovery.go", `max(s.Hard.Term, s.Log.Last.Term) + recoveryTermJump`, `s.Log.Last.Term + recoveryTermJump`)),
	recovered("V121", "a log that is compacted after a recovery begins in the new cluster", "it begins in the former one", "G9",
		value("compact.go", `c.cluster()`, `func() ClusterID { o, _ := c.origin(); return o }()`)),
	recovered("V122", "a member uses the configuration of a recovery from its entry on", "it does so from its next start on", "N9",
		before("membership.go", `err := c.log.adoptConfig(e)`, `if e.Kind == EntryRecovery { return }`)),
	recovered("V123", "a message of the former cluster is for nobody in the new one", "it is, if it names the receiver", "N19",
		value("message.go", `m.Cluster == ours || m.Cluster == ClusterID{} || ours == ClusterID{}`, `true`)),
	recovered("V124", "the entry of a recovery is not older than the last entry", "it has the time of the operator's clock", "N29",
		value("recovery.go", `max(now, s.Log.LastTime)`, `now`)),
	recovered("V125", "a recovery gives the survivor another incarnation", "its configuration names the former one", "G27",
		before("recovery.go", `return s.RecoverAs(survivor, cluster, fresh, now)`, `fresh = survivor.Incarnation`)),
	testedFirst("V114", "the checksum of each frame of a backup covers all frames before it", "it covers the frame", "internal/backup", "TestBackup_EveryDamageIsNoticed",
		before("internal/backup/reader.go", `r.at = r.read`, `r.sum = 0`),
		before("internal/backup/writer.go", `w.put(frame(k, payload))`, `w.sum = 0`)),
	tested("V115", "a backup has everything that was acknowledged before", "it has what the member has applied", "node", "TestBackup_HasEverything",
		before("node/backup.go", `if _, err := b.node.ReadIndex(b.ctx); err != nil {`, `if !b.node.applier.durable() { return b.writeFile() }; return b.writeFrozen()`)),
	testedFirst("V116", "the refusal of half a restore goes with its last step", "it is not there", "storage", "TestRestore_InterruptedAnywhere",
		before("storage/restore.go", `if _, err := os.Lstat(filepath.Join(dir, restoringDir)); err == nil {`, `if true { return unfinishedAside(dir) }`)),
}
