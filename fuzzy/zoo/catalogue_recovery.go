package zoo

// recoveries: one survivor's log as that of a new cluster, and backups. The simulator runs neither, so only tests kill these.
var recoveries = []Mutant{
	testedFirst("V110", "a later term does not forget the cluster of a recovery", "it does", ".", "TestRecovery_TheSurvivorLeadsAlone",
		before("raft.go", `c.endBallot(false)
	c.hard = `, `c.hard.Cluster = ClusterID{}`)),
	tested("V111", "a recovery raises the term beyond those of the lost members", "it raises it by one", ".", "TestRecovery_",
		value("recovery.go", `max(s.Hard.Term, s.Log.Last.Term) + recoveryTermJump`, `max(s.Hard.Term, s.Log.Last.Term) + 1`)),
	tested("V112", "the base of a recovered log names the new cluster", "it names the former one", ".", "TestRecovery_",
		instead("recovery.go", `r.Base.Cluster = cluster`, ``)),
	tested("V113", "a new member notes the cluster of a recovery with its first entries", "it does not", ".", "TestRecovery_",
		instead("append.go", `c.hard.Cluster = of`, ``)),
	testedFirst("V114", "the checksum of each frame of a backup covers all frames before it", "it covers the frame", "internal/backup", "TestBackup_EveryDamageIsNoticed",
		before("internal/backup/reader.go", `r.at = r.read`, `r.sum = 0`),
		before("internal/backup/writer.go", `w.put(frame(k, payload))`, `w.sum = 0`)),
	tested("V115", "a backup has everything that was acknowledged before", "it has what the member has applied", "node", "TestBackup_HasEverything",
		before("node/backup.go", `if _, err := b.node.ReadIndex(b.ctx); err != nil {`, `if !b.node.applier.durable() { return b.writeFile() }; return b.writeFrozen()`)),
	testedFirst("V116", "the refusal of half a restore goes with its last step", "it is not there", "storage", "TestRestore_InterruptedAnywhere",
		before("storage/restore.go", `if _, err := os.Lstat(filepath.Join(dir, restoringDir)); err == nil {`, `if true { return unfinishedAside(dir) }`)),
}
