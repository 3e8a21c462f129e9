package zoo

// founding: mutants of the values that decide who bootstraps, who joins, and when a store is set aside. The simulator
// runs the first of them, and no petition.
var founding = []Mutant{
	ofJoining("J110", "a member that is no founder only joins", "it gives a list, too", "Seeker_WhoIsNoFounder",
		value("joining/decide.go", `!slices.Contains(s.cfg.Founders, s.cfg.Self.ID)`, `len(s.cfg.Founders) == 0`)),
	ofSeeker("J111", "a founder asks its seeds first", "it gives its list at once", "Seeker_SeedsFirst",
		value("joining/decide.go", `!s.seeded`, `false`)),
	ofSeeker("J112", "a founder that has heard of a cluster gives no list", "it does", "Seeker_AFounderThatHears",
		value("joining/decide.go", `s.heard != nil`, `s.heard != nil && !s.told`)),
	ofJoining("J113", "entry 1 without a term is not heard", "it is", "Seeker_WhatIsNotHeard",
		value("joining/seeker.go", `r.Term > 0`, `(r.Term > 0 || r.Cluster != raft.ClusterID{})`)),
	ofJoining("J114", "an answer of another cluster does not count", "it does", "Seeker_WhatIsNotHeard|Seeker_BadSeeds",
		value("joining/seeker.go", `r.ClusterName != s.cfg.ClusterName`, `false`)),
	ofSeeker("J115", "the lowest founder waits for each other one", "it gives what it has", "Seeker_TheLowestFounderWaits",
		value("joining/decide.go", `len(s.awaited()) > 0`, `len(s.awaited()) == len(s.cfg.Founders)`)),
	ofJoining("J116", "founders agree about who they are", "the lowest one's list counts", "Seeker_TheLowestFounderWaits",
		value("joining/decide.go", `!sameIDs(found.reply.Founders, s.cfg.Founders)`, `false`)),
	ofJoining("J117", "an advertised address is one where its member answers", "it is taken as it is", "Seeker_AnAdvertised",
		value("joining/decide.go", `own.reply.From != r.From`, `false`)),
	ofJoining("J119", "a store joins its own cluster alone", "any of the same name", "Seeker_WhichCluster|Seeker_WhoHolds",
		value("joining/decide.go", `st.Cluster != raft.ClusterID{} && st.Cluster != p.reply.Cluster`, `false`)),
	ofJoining("J120", "a learner that somebody has demoted stays one", "it asks for a vote", "Seeker_WhenItAsks",
		value("joining/seeker.go", `(s.asked || twin)`, `true`)),
	ofJoining("J121", "an entry is corrected once in a run", "again and again", "Seeker_CorrectsItsEntryOnce",
		instead("joining/correct.go", `m.right, m.why = true, ""`, `m.why = ""`)),
	ofJoining("J122", "the later change of an entry wins", "the member takes it back", "Seeker_YieldsTo",
		instead("joining/correct.go", `m.yield(entry)`, `_ = entry`)),
	ofJoining("J123", "members that have swapped their addresses move together", "each alone", "Seeker_AnAddressOf",
		instead("joining/correct.go", `m.along = append(m.along, used.By)`, `_ = used`)),
	ofJoining("J124", "a place is free at once where the petitioner itself answers", "where any other store does", "Grant_WhenAnOld",
		value("joining/grant.go", `l.Seen[i].Answers == caller.Incarnation`, `l.Seen[i].Answers != 0`)),
	ofJoining("J125", "refusals count for two seconds", "at once", "Grant_WhenAnOld",
		value("joining/grant.go", `l.Seen[i].RefusedFor >= RefusedMin`, `l.Seen[i].RefusedFor > 0`)),
	ofJoining("J126", "a member that the leader hears is not lost", "its addresses alone count", "Grant_WhenAnOld",
		value("joining/grant.go", `l.Seen[i].Silence >= RefusedMin`, `true`)),
	ofJoining("J127", "silence is watched from petition to petition", "one long silence is enough", "Grant_WhenAnOld",
		value("joining/grant.go", `min(quiet, l.Seen[i].Silence)`, `l.Seen[i].Silence`)),
	ofJoining("J128", "a pause of the leader's process is no silence", "it is", "Grant_WhenAnOld",
		value("joining/grant.go", `min(passed, quietMax)`, `passed`)),
	ofJoining("J129", "a sign of life ends the silence", "it does not", "Grant_WhenAnOld",
		value("joining/grant.go", `l.Seen[seen].Silence < passed`, `false`)),
	ofJoining("J130", "nobody takes the id of the leader", "who is silent long enough does", "Grant_WhatIsRefused",
		value("joining/grant.go", `len(others) > 0 && (!named || mine.Kind == raft.Learner)`, `len(others) > 0 && others[0].Peer() != l.Self && (!named || mine.Kind == raft.Learner)`)),
	ofJoining("J131", "a joining member is contacted at its address", "its own word about the incarnation is enough", "Grant_TheNextStep",
		instead("joining/grant.go", `c.Add[i].Incarnation = 0`, `_ = i`)),
	ofJoining("J132", "a store that contradicts others is kept", "it is set aside if it is an older image, too", "MayDiscard",
		value("joining/discard.go", `errors.As(err, &contradicted)`, `false`)),
	ofJoining("J133", "a store is set aside once a quorum has confirmed the leader", "a leader's own word is enough", "MayDiscard",
		value("joining/discard.go", `!r.Confirmed`, `false`)),
	ofJoining("J134", "the leader is of the store's own cluster", "of one of the same name", "MayDiscard",
		value("joining/discard.go", `r.Cluster != s.Cluster`, `false`)),
	ofJoining("J135", "the committed configuration names the member", "it need not", "MayDiscard",
		value("joining/discard.go", `m.ID == s.ID`, `true`)),
	ofJoining("J136", "a store that cannot tell its cluster is kept", "any leader is enough", "MayDiscard",
		value("joining/discard.go", `s.Cluster == (raft.ClusterID{})`, `false`)),
	tested("J137", "a member that has moved is dialed where it was found", "where the configuration says", "member", "Founding_AllAddresses",
		instead("member/seek.go", `return found[0]`, `_ = found`)),
	tested("J138", "Rejoin counts for one removal", "for each", "member", "Founding_ARemoved",
		value("joining/discard.go", `rejoin == removed.Index`, `rejoin != 0`),
		value("member/discard.go", `was.Index != m.cfg.Rejoin`, `false`)),
	tested("J139", "a damaged store says of which cluster it is", "it does not", "member", "Founding_ADamagedStoreIsSetAside",
		instead("storage/boltload.go", `damage.Cluster = log.Bootstrap.Cluster`, `_ = log`)),
}

func ofJoining(id, rule, bug, run string, edits ...Edit) Mutant {
	return tested(id, rule, bug, "joining", run, edits...)
}

// ofSeeker is a mutant that seeds of the simulator notice, too.
func ofSeeker(id, rule, bug, run string, edits ...Edit) Mutant {
	return mutant(id, rule, bug, "N103", edits...).profiles("bootstrap").test("joining", run)
}
