package zoo

// schedules: what only members with different settings, two leaders that fall one after another, and reads that several members
// request at once show.
var schedules = []Mutant{
	mutant("C52", "only a member whose removal is committed is ignored as a candidate", "one whose removal is appended is ignored", "L1",
		before("membership.go", "_, removed := c.log.configAt(c.log.commit).Config.removal(m.From)\n\treturn removed", `if _, appended := c.config().removal(m.From); appended { return true }`)).profiles("members"),
	mutant("C54", "a member that an uncommitted configuration removes votes", "it denies pre-votes", "L1",
		before("election.go", `why := c.grants(m.Term+1, Peer{}, m.From, r.Last)`, `if c.config().VotesIn(c.self) == 0 { c.send(m.From, PreVoteReply{ID: r.ID}); return }`)).profiles("members"),
	mutant("R41", "only the reads of the member that turns out to be stale, or leaves, are refused", "those of all members are", "N",
		value("read.go", `waiting.from != from`, `waiting.from == Peer{}`)).profiles("elections", "history", "swarm"),
	mutant("R42", "a reply to a read names the start that asked", "only the counter counts", "G13, H1",
		value("read.go", `f.request != r.ID`, `f.request.Counter != r.ID.Counter`)).profiles("elections", "history", "swarm"),
	mutant("R50", "a follower's reports of what it has proved never fall in a term", "a late append lowers them", "N17",
		instead("append.go", `c.termLeader.proved = max(c.termLeader.proved, r.Last.Index)`, `c.termLeader.proved = r.Last.Index`)).profiles("images", "elections"),
	mutant("R53", "a stale member remains stale until the term ends", "a change of the members makes it count again", "N23",
		before("membership.go", `l.votes = config.VotesIn(c.self)`, `for i := range l.peers { if p := &l.peers[i]; p.state == stale { *p = c.newProgress(p.peer, roundTrip) } }`)).profiles("images", "elections"),
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
	mutant("H21", "a member takes entries although it has many unapplied ones", "it refuses them beyond its limit for proposals", "L2",
		before("append.go", "if e.Index != before.Index+1 ||", `if e.Index > c.log.applied+Index(c.cfg.UnappliedMax) { return "too much is not applied" }`)).profiles("swarm", "members", "slow"),
	mutant("R54", "while a follower is probed, too, its match index never falls", "a late acknowledgement lowers it", "N18",
		instead("progress.go", `p.match = max(p.match, match)`, `p.match = match`)).arranged().profiles("images", "elections"),
	mutant("R55", "a member's read waits for the next round", "it joins the running one", "G13",
		instead("read.go", `c.leader.reads.next = append(c.leader.reads.next, read{from: from, id: r.ID})`, `if reads := &c.leader.reads; len(reads.now) > 0 {
			reads.now, reads.id = append(reads.now, read{from: from, id: r.ID}), c.log.id(c.log.commit)
		} else {
			reads.next = append(reads.next, read{from: from, id: r.ID})
		}`)).arranged().profiles("elections", "history", "swarm"),
	mutant("R56", "after a request for reads has timed out, the reads that waited are requested", "they are not", "L9",
		instead("read.go", "f.asked = f.asked[:0]\n\t\tc.askLeader()", `f.asked = f.asked[:0]`)).arranged().profiles("network", "swarm"),
	mutant("C56", "a leader waits while it takes the snapshot for a member", "it gives the change up", "L15",
		value("reconfigure.go", `mayTake && c.waitsForTake(p)`, `false`)).arranged().profiles("members").or("CatchUp_WaitsForItsSnapshot"),
}
