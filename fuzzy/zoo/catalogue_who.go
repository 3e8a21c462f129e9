package zoo

// questions: who may ask, and what is answered. The simulator asks package joining directly, without a transport.
var questions = []Mutant{
	mutant("X100", "a question counts for the id that the caller's certificate proves", "for any id", "tests",
		value("transport/who.go", `t.identify(conn, q.ClusterName, q.From.ID)`, `error(nil)`)).arranged().outside("transport", "Who_TheCertificates"),
	mutant("X101", "an answer counts only with a certificate of its member", "without one", "tests",
		value("transport/who.go", `t.identify(conn, q.ClusterName, reply.From.ID)`, `error(nil)`)).arranged().outside("transport", "Who_TheCertificates"),
	mutant("X102", "a member answers only the questions of its own cluster's name", "of any", "tests",
		value("transport/who.go", `q.ClusterName != own.ClusterName`, `false`)).arranged().outside("transport", "Who_WhateverAnswers"),
	mutant("X103", "a source asks a bounded number of questions", "any number", "tests",
		value("transport/questions.go", `a.used+1 <= 2*times*questionsPerSecond`, `true`)).arranged().outside("transport", "Questions_"),
	mutant("X104", "few questions are open at the same time", "any number is", "tests",
		value("transport/questions.go", `a.open < int(times)*questionsOpenMax`, `true`)).arranged().outside("transport", "Questions_"),
	mutant("X105", "a silent process is waited for in bounded time", "without a limit", "tests",
		instead("transport/who.go", `if err := conn.SetDeadline(time.Now().Add(t.options.HandshakeTimeout + t.options.whoTime(q))); err != nil {
		return raft.WhoReply{}, err
	}`, `_ = conn.SetDeadline(time.Time{})`)).arranged().outside("transport", "Who_WhateverAnswers"),
	mutant("X106", "a peer has refused only if nobody listened at each of its addresses", "if it could not be reached", "tests",
		value("transport/round.go", `!every(all, nobodyListens)`, `false`)).arranged().outside("transport", "RefusedFor"),
	mutant("X107", "a new address begins the time of refusals again", "the time goes on", "tests",
		instead("transport/round.go", `r.tried, r.failed, r.refused, k.status.RefusedFor = 0, nil, time.Time{}, 0`, `r.tried, r.failed = 0, nil`)).
		arranged().outside("transport", "RefusedFor"),
	mutant("X123", "time in which this process dialed nobody is no time of refusals", "it is", "tests",
		value("transport/round.go", `now.Sub(r.ended) > refusedGapMax`, `false`)).arranged().outside("transport", "Link_APause"),
	mutant("X108", "a leader confirms itself by a round that began after the question", "without a round", "tests",
		value("node/who.go", `n.requests.wait(ctx, req).err != nil`, `req == nil`)).arranged().outside("node", "Who_AConfirmation"),
	mutant("X109", "a leader without changes from others refuses petitions", "it carries them out", "tests",
		value("node/petition.go", `n.cfg.NoRemoteChanges`, `false`)).arranged().outside("node", "Petition_ALeaderThatTakes"),
	mutant("X110", "a member's silence begins when it was last heard", "when the leader took office", "tests",
		value("node/petition.go", `!heard.IsZero()`, `false`)).arranged().outside("node", "Petition_AMemberThatIsHeard"),
	mutant("X120", "all lanes of a connection go to one address", "each to the one that the resolver returns then", "tests",
		value("transport/dial.go", `at == ""`, `true`)).arranged().outside("transport", "AllLanesGoToOne"),
}
