package zoo

// ports: the ports of members and of the demo store, which strangers can reach. Tests with real sockets catch these mutants.
var ports = []Mutant{
	mutant("X20", "a request takes a place only once its body has arrived", "a slow client holds a place as long as it likes", "N10",
		before("internal/demo/server/server.go", `body, x, err := s.readBody(w, r)`, `
			select {
			case s.running <- struct{}{}:
				defer func() { <-s.running }()
			default:
				s.deliver(w, r, fail(api.Errorf(admin.Overloaded, "try again", "full")))
				return
			}`)).seen("our own demo store: 1,700 bodies that trickled kept out every other write").outside("internal/demo/server", "Body_ThatTrickles"),
	mutant("X21", "a body has a deadline", "each byte extends the deadline", "N10",
		value("internal/demo/server/answer.go", `time.Now().Add(BodyTimeout)`, `time.Now().Add(time.Hour)`)).outside("internal/demo/server", "Body_HasADeadline"),
	mutant("X22", "a reply that makes no progress is given up", "it waits for its client", "N10",
		value("internal/demo/server/answer.go", `time.Now().Add(ReplyTimeout)`, `time.Now().Add(time.Hour)`)).
		seen("our own demo store: clients that never read cost the leader its leadership").outside("internal/demo/server", "Reply_ThatIsNotRead"),
	mutant("X23", "the bytes of bodies and replies under way are bounded", "they are not", "N10",
		value("internal/demo/server/transfers.go", `t.bytes+bytes > t.bytesMax`, `false`)).outside("internal/demo/server", "Transfers"),
	mutant("X24", "the number of bodies and replies under way is bounded", "it is not", "N10",
		value("internal/demo/server/transfers.go", `t.underWay.Len() >= t.countMax`, `false`)).outside("internal/demo/server", "Transfers"),
	mutant("X25", "every error of the demo store is in JSON", "a request that the HTTP server cannot read is answered in text", "N10",
		value("internal/demo/server/listener.go", `c.answering.Load()`, `true`)).outside("internal/demo/server", "EveryErrorIsInJSON"),
	mutant("X26", "a caller that makes progress with its handshake stays", "the oldest caller is dropped, whatever it has sent", "N10",
		instead("transport/waiting.go", `c.class += stage - c.class%stages`, `_ = stage`)).
		seen("our own transport: 3,000 silent callers kept a member out").outside("transport", "Waiting"),
	mutant("X27", "a caller from a member's address is not dropped to make room", "it is treated like any other", "N10",
		value("transport/waiting.go", `w.isHome(conn.RemoteAddr())`, `false`)).outside("transport", "Waiting"),
	mutant("X28", "only a few TLS handshakes are computed at the same time", "all of them are", "N10",
		value("transport/waiting.go", `t.free > 0`, `true`)).outside("transport", "Turns"),
	mutant("X29", "members find a place among strangers", "the first callers keep their places", "N10",
		value("transport/accept.go", `!t.isNamed(in.peer) || !t.closeStranger()`, `true`)).outside("transport", "Strangers"),
	mutant("X30", "a member that waits for a bootstrap names the members that it waits for", "it reports that it bootstraps", "L1",
		value("node/status.go", `string(s.ID) == bootstrapper`, `true`)).outside("node", "AWaitingMemberSays|SaysWhy|LeaderReason"),
	mutant("X31", "entries keep the bytes of the frame they came in", "later frames are read over them", "N10",
		value("transport/frame.go", `size <= growBytes`, `false`)).arranged().outside("transport", "LongFramesShareNothing"),
	mutant("X32", "a long append is written in parts", "the bytes that are gathered after a part are sent twice", "N10",
		instead("transport/conn.go", `o.pieces, o.uncut, o.buf = o.pieces[:0], 0, o.buf[:0]`, `o.pieces, o.uncut = o.pieces[:0], 0`)).
		arranged().outside("transport", "ALongAppend"),
	mutant("X41", "a configuration that GetConfigForClient returns is checked like Options.TLS", "it is used as it is", "N10",
		value("transport/tls.go", `inboundTLS(chosen, c.ClientCAs)`, `chosen`)).
		arranged().seen("our own transport: a certificate of another authority was accepted").outside("transport", "NoFieldLetsAStrangerIn"),
	mutant("X70", "a configuration that TLSSource returns is checked at each connection", "only the first one is", "N10",
		value("transport/tls.go", `errors.Join(checkTLS(c)...)`, `error(nil)`)).arranged().outside("transport", "TLSSource_AFaulty"),
	mutant("X71", "part of a file of certificates is refused", "the certificates that can be read are used", "N10",
		value("internal/pemfiles/pemfiles.go", `begun != complete`, `false`)).arranged().outside("member", "Certificates_"),
	mutant("X72", "a member does not use the certificate of another member", "it does, and the others refuse it", "N10",
		value("member/certificates.go", `c.check(leaf)`, `error(nil)`)).arranged().outside("member", "Certificates_"),
	mutant("X42", "a member answers only requests for its own names", "it answers requests for any name", "N10",
		value("admin/guard.go", `isOwn(hostname(r.Host), m, hosts)`, `true`)).arranged().outside("admin", "HeadersDecide"),
	mutant("X43", "a member learns that a forward lane that it dialed has broken", "callers wait for an answer until their deadline", "tests",
		instead("transport/sidelane.go", `p.t.forwardLost(p.hello.From)`, `_ = p`)).arranged().outside("transport", "ForwardLane_ItsBreak"),
	mutant("X44", "a member learns that a forward lane that it accepted has broken", "callers wait for an answer until their deadline", "tests",
		instead("transport/accept.go", `t.forwardLost(in.peer)`, `_ = t`)).arranged().outside("transport", "ForwardLane_ItsBreak"),
	mutant("X45", "a forward lane that is closed because it is idle is no loss", "it is reported like one", "tests",
		value("transport/accept.go", `isSide(in.lane) && err == io.EOF`, `false`)).arranged().outside("transport", "ForwardLane_ItsBreak|ForwardLane_WithTLS"),
	mutant("X46", "an earlier release gets no request to forward", "it closes the connection", "tests",
		instead("transport/frame.go", `return raft.ProtocolForwarding`, `return raft.ProtocolSnapshots`)).arranged().outside("transport", "Sides_AnEarlierRelease"),
	mutant("X60", "a page of another site changes no member", "only its reads are refused", "N10",
		value("admin/guard.go", `new(http.CrossOriginProtection).Check(r)`, `error(nil)`)).arranged().outside("admin", "HeadersDecide"),
	mutant("X61", "few requests wait for a change of the members", "any number does", "N10",
		value("admin/handler.go", `make(chan struct{}, ChangesMax)`, `make(chan struct{}, 1<<20)`)).arranged().outside("admin", "Change_FewRequestsWait"),
	mutant("X62", "the body of a change has a deadline", "each byte extends it", "N10",
		value("admin/handler.go", `time.Now().Add(BodyTimeout)`, `time.Now().Add(time.Hour)`)).arranged().outside("admin", "BodiesThatTrickle"),
	mutant("X80", "a follower that ends moves no leader", "it asks the leader to transfer its leadership", "tests",
		value("member/member.go", `m.node.Status().Role == raft.Leader`, `true`)).arranged().outside("member", "Shutdown_OfAFollower"),
	mutant("X81", "a follower checks a change by the configuration in force", "it checks by the one that it knows", "tests",
		instead("admin/changes.go", `return err == nil`, `return err == nil || true`)).arranged().outside("admin", "Change_AMemberThatMayNotBeUpToDate"),
}
