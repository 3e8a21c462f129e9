package zoo

// edges: what lies right at a limit, or lacks exactly one entry or start.
var edges = []Mutant{
	edge("N01", "a lineage remembers 64 starts", "it remembers 63", "S2, I12", "handshake", "Lineage",
		value("hello.go", `l[max(0, len(l)-LineageStartsMax):]`, `l[max(0, len(l)-LineageStartsMax+1):]`)),
	edge("N02", "the oldest start of a lineage is forgotten", "the newest is", "I1, I11", ".", "Lineage",
		value("hello.go", `l[max(0, len(l)-LineageStartsMax):]`, `l[:min(len(l), LineageStartsMax)]`)),
	edge("N03", "the oldest start of a lineage counts as a start of it", "another start with its number is too long ago to judge", "I12, I3", "handshake", "Lineage",
		value("handshake/descent.go", `seen.Count < l[0].Count`, `seen.Count <= l[0].Count`)),
	edge("N04", "a removal by the entry of the oldest known one may be forgotten", "it cannot be", "I8", "handshake", "Told_ARemoval",
		value("handshake/admission.go", `len(v.Removed) == raft.RemovedMax && r.Index <= v.Removed[0].Index`,
			`len(v.Removed) == raft.RemovedMax && r.Index < v.Removed[0].Index`)),
	edge("N05", "a store may not join if the entry of the oldest known removal may have removed it", "it may", "I10", "handshake", "MayJoin",
		value("handshake/admission.go", `h.NamedIndex <= v.Removed[0].Index`, `h.NamedIndex < v.Removed[0].Index`)),
	edge("N06", "64 removals may be all that are remembered", "more must be known", "I10", "handshake", "MayJoin",
		value("handshake/admission.go", `len(v.Removed) >= raft.RemovedMax`, `len(v.Removed) > raft.RemovedMax`)),
	edge("N07", "a configuration remembers 64 removals", "it remembers 63", "G7", ".", "Removed_OnlyTheLatest",
		value("quorum.go", `removed[max(0, len(removed)-RemovedMax):]`, `removed[max(0, len(removed)-RemovedMax+1):]`)),
	edge("N08", "the oldest known removal counts, too", "it does not once the list is full", "I8", "handshake", "CheckRemoved",
		value("handshake/admission.go", `slices.IndexFunc(all, func(r raft.Removal) bool { return r.Peer == p })`,
			`func() int {
				i := slices.IndexFunc(all, func(r raft.Removal) bool { return r.Peer == p })
				if i == 0 && len(all) == raft.RemovedMax { return -1 }
				return i
			}()`)),
	edge("N09", "a member that lost the last entry which it acknowledged is stale", "it must have lost two", "N18, N23", ".", "TestStale",
		value("replicate.go", `r.Prev == r.Acknowledged || agreed < r.Acknowledged`, `agreed+1 < r.Acknowledged`)),
	edge("N10", "a stale member is told what it has acknowledged", "it is told one entry less", "N23", ".", "TestStale",
		value("replicate.go", `p.lostMatch`, `p.lostMatch - min(p.lostMatch, 1)`)),
	edge("N11", "a member marks its store if it lacks the last entry that it acknowledged", "only if it lacks two", "N40", ".", "TestMarked",
		value("marked.go", `acknowledged == 0 || answer.Prev != acknowledged && c.log.Last.Index >= acknowledged`,
			`acknowledged == 0 || c.log.Last.Index+1 >= acknowledged`)),
	edge("N12", "the entry that a member acknowledged last is kept in mind when it is compacted", "it is forgotten if it lies right before the base", "S2", ".", "TestStale",
		value("compact.go", `p.match < to`, `p.match+1 < to`)),
	edge("N13", "the same if that entry is the base", "it is not", "S2", ".", "TestStale",
		value("compact.go", `p.match >= log.Base.ID.Index`, `p.match > log.Base.ID.Index`)),
	edge("N14", "only the leader of the same term as the report clears a suspected member", "the leader of a later term does so, too", "N74", ".", "TestSuspected",
		value("marked.go", `c.suspected() && c.follower.suspicion.mark.Term == c.hard.Term`, `c.suspected()`)).
		profiles("scenario:loss-shown-by-a-liar", "scenario:loss-shown-by-a-stranger", "images"),
}

// edge returns a mutant that seeds kill only since runs lose single entries and begin near limits.
func edge(id, rule, bug, expect, dir, run string, edits ...Edit) Mutant {
	return mutant(id, rule, bug, expect, edits...).arranged().test(dir, run).profiles("images", "members", "scenario:lost-acknowledgement-behind-the-base", "scenario:as-many-starts-as-are-remembered")
}
