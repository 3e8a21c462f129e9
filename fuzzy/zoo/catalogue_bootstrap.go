package zoo

// bootstrap: how a cluster begins, and what an emptied disk may do. The numbers name schedules that model checking of the
// design has found.
var bootstrap = []Mutant{
	mutant("F01", "an uninitialized member does not vote", "an uninitialized member grants votes", "N7, G3",
		value("message.go", `c.uninitialized() && !isAppend`, `false`)).seen("model check, bootstrap 1").profiles("bootstrap", "swarm", "alone").or("TestBootstrap"),
	mutant("F02", "a bootstrapper campaigns only once all hold entry 1", "it campaigns once it holds entry 1 itself", "G16, L1",
		before("bootstrap.go", checkHeldAnchor, `c.bootstrapper.replies = nil`)).arranged().seen("model check, bootstrap 2 and 5").profiles("bootstrap", "swarm", "alone"),
	mutant("F03", "F01 and F02", "both bugs together", "G16, G2",
		value("message.go", `c.uninitialized() && !isAppend`, `false`),
		before("bootstrap.go", checkHeldAnchor, `c.bootstrapper.replies = nil`)).arranged().seen("model check, bootstrap 1").profiles("bootstrap", "swarm", "alone").must(),
	mutant("F04", "a bootstrap is not repeated after a campaign", "a bootstrapper that restarts probes the members again", "N8, G4",
		value("bootstrap.go", `c.hard.Term > 0 || !isBootstrapper(list, c.self.ID)`, `!isBootstrapper(list, c.self.ID)`)).
		seen("model check, bootstrap 3").profiles("bootstrap", "swarm", "alone").must(),
	mutant("F05", "all initial members have the same list", "a member with another list takes part", "G16, G4",
		value("bootstrap.go", `!reply.List.SameList(r.List)`, `false`),
		value("bootstrap.go", `r.Result == ProbeUninitialized && !r.List.SameList(f.list)`, `false`),
		value("bootstrap.go", `c.uninitialized() && c.cfg.Initial.SameList(f.Configuration)`, `c.uninitialized()`)).
		arranged().seen("model check, bootstrap 4").profiles("bootstrap"),
	mutant("F06", "only a member of term 0 accepts a repeated bootstrap", "a member that has voted accepts it, too", "G4, L1",
		value("bootstrap.go", `f != nil && c.hard == HardState{} && f.Bootstrapper == bootstrapper && f.Probe.Less(probe)`,
			`f != nil && f.Bootstrapper == bootstrapper && f.Probe.Less(probe)`)).seen("model check, bootstrap 6"),
	mutant("F07", "F04 and F06", "both bugs together: a bootstrap is repeated on both sides although there was a term", "N8, G4",
		value("bootstrap.go", `c.hard.Term > 0 || !isBootstrapper(list, c.self.ID)`, `!isBootstrapper(list, c.self.ID)`),
		value("bootstrap.go", `f != nil && c.hard == HardState{} && f.Bootstrapper == bootstrapper && f.Probe.Less(probe)`,
			`f != nil && f.Bootstrapper == bootstrapper && f.Probe.Less(probe)`)).seen("model check, bootstrap 3 and 6").profiles("bootstrap", "swarm", "alone").must(),
	mutant("F10", "no member at term 0 but the bootstrapper campaigns", "any member that holds entry 1 campaigns", "G16, L1",
		value("election.go", mayCampaignAnchor, `c.mayBeNeeded()`),
		value("message.go", `m.Term == 0 && !ok`, `false`)).arranged().seen("model check, bootstrap").profiles("bootstrap").must(),
	mutant("F11", "replies to an earlier probe do not count", "they count", "G16, L1",
		value("bootstrap.go", `f == nil || f.holding || r.ID != f.probe`, `f == nil || f.holding`)).arranged().profiles("bootstrap", "swarm", "alone").or("TestBootstrap"),
	mutant("F12", "a bootstrap is durable before it is acknowledged", "the reply leaves before the write", "N6",
		before("output.go", releaseAnchor, `if _, ok := o.message.Body.(BootstrapReply); ok { durable = true }`)).profiles("bootstrap", "swarm", "alone").must(),
	mutant("F13", "a bootstrapper sends entry 1 only once it is durable", "it sends it at once", "L1",
		value("bootstrap.go", `f.holding && !a.holds && c.disk.persisted >= 1`, `f.holding && !a.holds`)).
		profiles("bootstrap", "swarm", "alone").lives("a bootstrapper that lost entry 1 probes the members again, and members that hold it at term 0 accept the new one: the rule only saves a round"),
	mutant("F14", "holders of entry 1 are counted by incarnation", "they are counted by id", "L1",
		value("bootstrap.go", `a != nil && a.peer == from`, `a != nil`)).
		profiles("bootstrap", "swarm", "alone").lives("only the incarnation that answered the probe is sent entry 1, so no other can acknowledge it: the check guards against what is impossible today"),
	mutant("F15", "all members are probed before a cluster is bootstrapped", "a majority is enough", "G16, L1",
		before("bootstrap.go", bootstrapAnchor, `
			uninitialized := 1
			for _, a := range f.replies { if a.result == ProbeUninitialized { uninitialized++ } }
			if uninitialized >= majority(len(f.list.Members)) {
				for i := range f.replies { f.replies[i].result = ProbeUninitialized }
			}`)).profiles("bootstrap", "swarm", "alone").must(),
	mutant("F16", "a repeated bootstrap has a new cluster id", "it has the same id", "G16, G2",
		value("bootstrap.go", `last^c.bootstrapper.probe.Counter`, `last`)).arranged().profiles("bootstrap", "swarm", "alone").or("TestBootstrap"),
	mutant("F21", "a list that is given later counts only if there is none", "it replaces the list in force", "tests",
		value("bootstrap.go", `!c.uninitialized() || len(c.cfg.Initial.Members) > 0`, `!c.uninitialized()`)).arranged().profiles("bootstrap").or("TestInitialGiven"),
	mutant("F22", "a bootstrapper that is given its list later probes the members", "it waits to be probed", "L1",
		instead("bootstrap.go", "c.step.out.Config = &config\n\tc.startBootstrap()", `c.step.out.Config = &config`)).arranged().profiles("bootstrap").must(),
	mutant("F31", "a bootstrapper that is told of a cluster probes no more", "it goes on", "N102",
		instead("bootstrap.go", "c.follower.hearing = hearing{e, c.now.Wall}\n\tc.bootstrapper = nil", `c.follower.hearing = hearing{e, c.now.Wall}`)).
		arranged().seen("model check, founding, nolatch").profiles("bootstrap").must(),
	mutant("F32", "a list that is given to a member that was told of a cluster begins no bootstrap", "it begins one", "N102, S3",
		value("bootstrap.go", `c.hasHeard() || f != nil && f.Bootstrapper != c.self`, `f != nil && f.Bootstrapper != c.self`)).
		arranged().profiles("bootstrap").or("TestHeard"),
	mutant("F33", "a founder that was told of a cluster says so to a bootstrapper", "it answers as uninitialized", "N102",
		instead("bootstrap.go", `reply.HeardOf, reply.HeardFrom = c.follower.hearing.Cluster, c.follower.hearing.From`, `reply.Result = ProbeUninitialized`)).
		arranged().seen("model check, founding, toldanswers").profiles("bootstrap").must(),
	mutant("F34", "a member that holds entry 1 goes on whatever it is told", "it gives up its bootstrap", "L1, S2",
		instead("bootstrap.go", "if !c.uninitialized() {\n\t\treturn\n\t}", `_ = c`)).arranged().seen("model check, founding, told0").profiles("bootstrap"),
	mutant("F35", "what a member was told counts while it is uninitialized", "it answers a repeated probe with it although it holds entry 1", "N102",
		value("bootstrap.go", `c.uninitialized() && c.follower.hearing.From != ""`, `c.follower.hearing.From != ""`)).arranged().profiles("bootstrap").must(),
	mutant("F36", "a founder that has answered takes entry 1, whatever it is told meanwhile", "it refuses entry 1", "S3",
		value("bootstrap.go", `c.uninitialized() && c.cfg.Initial.SameList(f.Configuration)`,
			`c.uninitialized() && !c.hasHeard() && c.cfg.Initial.SameList(f.Configuration)`)).
		arranged().seen("model check, founding, refusehold").profiles("bootstrap").or("TestHeard"),
	mutant("F37", "an open address in a list of initial members matches any", "the two lists differ", "L1, S2",
		value("configuration.go", `a.Address == "" || b.Address == ""`, `false`)).arranged().profiles("bootstrap").must(),
	mutant("F38", "an answer to a probe carries what the founder was told", "a message does not carry it", "S3",
		value("transport/message.go", `append(w.HeardFrom, b.HeardFrom...)`, `w.HeardFrom`)).arranged().profiles("bootstrap").test("transport", "TestCodec|TestWire|TestMessage"),
	mutant("F39", "the bootstrapper's own list leaves no address open", "it may", "tests",
		value("coreconfig.go", `m.isOpen() && isBootstrapper(initial, id)`, `false`)).arranged().profiles("bootstrap").or("TestCoreConfig_OpenAddresses"),
	mutant("F40", "earlier releases are not shown a list that leaves an address open", "they are, and refuse the hello", "tests",
		value("transport/handshake.go", `h.List.Validate() == nil`, `true`)).arranged().outside("transport", "TestHello_AListWithOpenAddresses"),
	mutant("D14", "a wiped disk is another member", "it answers and counts as the former member", "N7, G8, G3",
		value("message.go", wrongIncarnation, `false`),
		value("message.go", `c.uninitialized() && !isAppend`, `false`),
		value("quorum.go", `slices.Contains(peers, p)`, `slices.ContainsFunc(peers, func(q Peer) bool { return q.ID == p.ID })`),
		value("election.go", mayCampaignAnchor, `func() bool { m, ok := c.config().Member(c.self.ID); return ok && m.Kind == Voter }() && c.hard.Term > 0`),
		value("leader.go", `l.peers[i].peer == p`, `l.peers[i].peer.ID == p.ID`)).seen("rethinkdb #5289; etcd #3504; dragonboat #256").profiles("alone", "swarm").must(),
	mutant("X01", "another cluster's messages are refused", "they are accepted", "N19, G14",
		value("message.go", `"it is of another cluster"`, `""`)).arranged().seen("etcd #17081; model check, bootstrap").must(),
	mutant("X03", "a message for an earlier incarnation is refused", "it is accepted", "N19, G14",
		value("message.go", wrongIncarnation, `false`)).profiles("alone", "swarm").must(),
	mutant("X08", "a misdelivered message is refused", "it is accepted", "N19",
		value("message.go", `m.To.ID != c.self.ID || m.From == c.self`, `m.From == c.self`)).
		arranged().seen("etcd #17081").profiles("bootstrap", "swarm").or("Hostile|Refus|Misaddressed"),
}

const (
	checkHeldAnchor   = "for _, a := range c.bootstrapper.replies {\n\t\tif !a.holds {"
	bootstrapAnchor   = "for _, a := range f.replies {\n\t\tif a.result != ProbeUninitialized {"
	mayCampaignAnchor = `c.mayBeNeeded() && c.hard.Term > 0`
	wrongIncarnation  = `m.To.Incarnation != c.self.Incarnation && !(probe && m.To.Incarnation == 0)`
)
