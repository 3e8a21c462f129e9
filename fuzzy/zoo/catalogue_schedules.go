package zoo

// schedules: what only members with different settings, two leaders that fall one after another, and reads that several members
// request at once show.
var schedules = []Mutant{
	mutant("H20", "a member takes entries above its own limit for proposals", "it refuses them", "L2",
		before("append.go", "if e.Index != before.Index+1 ||", `if e.Kind == EntryCommand && len(e.Data) > c.cfg.CommandBytesMax { return "an entry is too large" }`)).profiles("swarm", "members", "slow"),
	mutant("H25", "a member takes more entries at once than it sends", "it refuses them", "L2",
		before("append.go", "before := r.Prev\n\tfor", `if bytes := 0; len(r.Entries) > 1 {
			for _, e := range r.Entries {
				bytes += len(e.Data) + RecordOverheadBytes
			}
			if bytes > c.cfg.AppendBytesMax {
				return "it is too large"
			}
		}`)).profiles("swarm", "members", "slow"),
	mutant("R42", "a reply to a read names the start that asked", "only the counter counts", "G13, H1",
		value("read.go", `f.request != r.ID`, `f.request.Counter != r.ID.Counter`)).profiles("elections", "history", "swarm"),
	mutant("R50", "what a follower reports never falls in a term", "a late append lowers it", "N17",
		instead("append.go", `c.termLeader.proved = max(c.termLeader.proved, r.Last.Index)`, `c.termLeader.proved = r.Last.Index`)).profiles("images", "elections"),
	mutant("C56", "a leader waits while it takes the snapshot for a member", "it gives the change up", "L15",
		value("reconfigure.go", `mayTake && c.waitsForTake(p)`, `false`)).arranged().profiles("members").or("CatchUp_WaitsForItsSnapshot"),
}
