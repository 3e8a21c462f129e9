package zoo

// ports: what strangers can reach, a member's port and the demo store's; tests with real sockets catch these.
var ports = []Mutant{
	{
		ID: "X20", Rule: "a request takes a place only once its body has arrived", Bug: "a slow client holds a place as long as it likes",
		Edits: []Edit{before("internal/demo/server/server.go", `body, x, err := s.readBody(w, r)`, `
			select {
			case s.running <- struct{}{}:
				defer func() { <-s.running }()
			default:
				s.deliver(w, r, fail(api.Errorf(api.Overloaded, "try again", "full")))
				return
			}`)},
		Expect: "N10", Seen: "our own demo store: 1,700 bodies that trickled kept out every other write",
		Test:    &Test{"internal/demo/server", "Body_ThatTrickles"},
		Outside: true,
	},
	{
		ID: "X21", Rule: "a body has a deadline", Bug: "each byte extends it",
		Edits:   []Edit{value("internal/demo/server/answer.go", `time.Now().Add(BodyTimeout)`, `time.Now().Add(time.Hour)`)},
		Expect:  "N10",
		Test:    &Test{"internal/demo/server", "Body_HasADeadline"},
		Outside: true,
	},
	{
		ID: "X22", Rule: "a reply that makes no progress is given up", Bug: "it waits for its client",
		Edits:  []Edit{value("internal/demo/server/answer.go", `time.Now().Add(ReplyTimeout)`, `time.Now().Add(time.Hour)`)},
		Expect: "N10", Seen: "our own demo store: clients that never read cost the leader its office",
		Test:    &Test{"internal/demo/server", "Reply_ThatIsNotRead"},
		Outside: true,
	},
	{
		ID: "X23", Rule: "the bytes of bodies and replies under way are bounded", Bug: "they are not",
		Edits:   []Edit{value("internal/demo/server/transfers.go", `t.bytes+bytes > t.bytesMax`, `false`)},
		Expect:  "N10",
		Test:    &Test{"internal/demo/server", "Transfers"},
		Outside: true,
	},
	{
		ID: "X24", Rule: "the number of bodies and replies under way is bounded", Bug: "it is not",
		Edits:   []Edit{value("internal/demo/server/transfers.go", `t.underWay.Len() >= t.countMax`, `false`)},
		Expect:  "N10",
		Test:    &Test{"internal/demo/server", "Transfers"},
		Outside: true,
	},
	{
		ID: "X25", Rule: "every error of the demo store is in JSON", Bug: "a request that the HTTP server cannot read is answered in text",
		Edits:   []Edit{value("internal/demo/server/listener.go", `c.answering.Load()`, `true`)},
		Expect:  "N10",
		Test:    &Test{"internal/demo/server", "EveryErrorIsInJSON"},
		Outside: true,
	},
	{
		ID: "X26", Rule: "a caller that makes progress with its handshake stays", Bug: "the oldest caller is dropped, whatever it has sent",
		Edits:  []Edit{instead("transport/waiting.go", `c.class += stage - c.class%stages`, `_ = stage`)},
		Expect: "N10", Seen: "our own transport: 3,000 silent callers kept a member out",
		Test:    &Test{"transport", "Waiting"},
		Outside: true,
	},
	{
		ID: "X27", Rule: "a caller from a member's address stays", Bug: "it is treated like any other",
		Edits:   []Edit{value("transport/waiting.go", `w.isHome(conn.RemoteAddr())`, `false`)},
		Expect:  "N10",
		Test:    &Test{"transport", "Waiting"},
		Outside: true,
	},
	{
		ID: "X28", Rule: "few TLS handshakes are computed at the same time", Bug: "all of them are",
		Edits:   []Edit{value("transport/waiting.go", `t.free > 0`, `true`)},
		Expect:  "N10",
		Test:    &Test{"transport", "Turns"},
		Outside: true,
	},
	{
		ID: "X29", Rule: "members find a place among strangers", Bug: "the first callers keep their places",
		Edits:   []Edit{value("transport/accept.go", `!t.isNamed(in.peer) || !t.closeStranger()`, `true`)},
		Expect:  "N10",
		Test:    &Test{"transport", "Strangers"},
		Outside: true,
	},
	{
		ID: "X30", Rule: "a member that waits for a bootstrap reports whom it waits for", Bug: "it reports that it bootstraps",
		Edits:   []Edit{value("node/status.go", `string(s.ID) == bootstrapper`, `true`)},
		Expect:  "L1",
		Test:    &Test{"node", "WhoWaitsSays|SaysWhy|LeaderReason"},
		Outside: true,
	},
	{
		ID: "X31", Before: true, Rule: "entries keep the bytes of the frame they came in", Bug: "later frames are read over them",
		Edits:   []Edit{value("transport/frame.go", `size <= growBytes`, `false`)},
		Expect:  "N10",
		Test:    &Test{"transport", "LongFramesShareNothing"},
		Outside: true,
	},
	{
		ID: "X32", Before: true, Rule: "a long append is written in parts", Bug: "what is gathered after a part is sent twice",
		Edits: []Edit{instead("transport/conn.go", `o.pieces, o.uncut, o.buf = o.pieces[:0], 0, o.buf[:0]`,
			`o.pieces, o.uncut = o.pieces[:0], 0`)},
		Expect:  "N10",
		Test:    &Test{"transport", "ALongAppend"},
		Outside: true,
	},
	{
		ID: "X41", Before: true, Rule: "a configuration that GetConfigForClient returns enforces what Options.TLS does",
		Bug:     "it is used as it is",
		Edits:   []Edit{value("transport/tls.go", `inboundTLS(chosen, c.ClientCAs)`, `chosen`)},
		Expect:  "N10",
		Seen:    "our own transport: a certificate of another authority was accepted",
		Test:    &Test{"transport", "NoFieldLetsAStrangerIn"},
		Outside: true,
	},
	{
		ID: "X42", Before: true, Rule: "a member is asked under its own names", Bug: "it answers under any",
		Edits:   []Edit{value("internal/demo/server/browsers.go", `s.isOwn(hostname(r.Host))`, `true`)},
		Expect:  "N10",
		Test:    &Test{"internal/demo/server", "HeadersDecide"},
		Outside: true,
	},
}
