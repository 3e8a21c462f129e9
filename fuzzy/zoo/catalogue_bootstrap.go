package zoo

// bootstrap: how a cluster is born, and what an emptied disk may do. The numbers name the schedules that the
// model checks of the design found.
var bootstrap = []Mutant{
	{
		ID: "F01", Rule: "an uninitialized member does not vote", Bug: "an uninitialized member grants votes",
		Edits:  []Edit{value("message.go", `c.uninitialized() && !isAppend`, `false`)},
		Expect: "N7, G3", Seen: "model check, bootstrap 1", Profiles: []string{"bootstrap", "swarm", "disk"},
		Test: &Test{".", "TestBootstrap"},
	},
	{
		ID: "F02", Before: true, Rule: "a bootstrapper campaigns only once all hold entry 1", Bug: "it campaigns once it holds entry 1 itself",
		Edits:  []Edit{before("bootstrap.go", checkHeldAnchor, `c.bootstrapper.replies = nil`)},
		Expect: "G16, L1", Seen: "model check, bootstrap 2 and 5", Profiles: []string{"bootstrap", "swarm", "disk"},
	},
	{
		ID: "F03", Before: true, Rule: "F01 and F02", Bug: "both",
		Edits: []Edit{
			value("message.go", `c.uninitialized() && !isAppend`, `false`),
			before("bootstrap.go", checkHeldAnchor, `c.bootstrapper.replies = nil`),
		},
		Expect: "G16, G2", Seen: "model check, bootstrap 1", Profiles: []string{"bootstrap", "swarm", "disk"}, MustKill: true,
	},
	{
		ID: "F04", Rule: "a bootstrap is not repeated after a campaign", Bug: "a bootstrapper that restarts probes the members again",
		Edits:  []Edit{value("bootstrap.go", `c.hard.Term > 0 || !isBootstrapper(list, c.self.ID)`, `!isBootstrapper(list, c.self.ID)`)},
		Expect: "N8, G4", Seen: "model check, bootstrap 3", MustKill: true, Profiles: []string{"bootstrap", "swarm", "disk"},
	},
	{
		ID: "F05", Before: true, Rule: "all initial members have the same list", Bug: "a member with another list takes part",
		Edits: []Edit{
			value("bootstrap.go", `!reply.List.SameList(r.List)`, `false`),
			value("bootstrap.go", `r.Result == ProbeUninitialized && !r.List.SameList(f.list)`, `false`),
			value("bootstrap.go", `c.uninitialized() && c.cfg.Initial.SameList(f.Configuration)`, `c.uninitialized()`),
		},
		Expect: "G16, G4", Seen: "model check, bootstrap 4", Profiles: []string{"bootstrap"},
	},
	{
		ID: "F06", Rule: "only a member of term 0 accepts a repeated bootstrap", Bug: "a member that has voted accepts it, too",
		Edits: []Edit{
			value("bootstrap.go", `f != nil && c.hard == HardState{} && f.Bootstrapper == bootstrapper && f.Probe.Less(probe)`,
				`f != nil && f.Bootstrapper == bootstrapper && f.Probe.Less(probe)`),
		},
		Expect: "G4, L1", Seen: "model check, bootstrap 6",
	},
	{
		ID: "F07", Rule: "F04 and F06", Bug: "both: a bootstrap is repeated on both sides although there was a term",
		Edits: []Edit{
			value("bootstrap.go", `c.hard.Term > 0 || !isBootstrapper(list, c.self.ID)`, `!isBootstrapper(list, c.self.ID)`),
			value("bootstrap.go", `f != nil && c.hard == HardState{} && f.Bootstrapper == bootstrapper && f.Probe.Less(probe)`,
				`f != nil && f.Bootstrapper == bootstrapper && f.Probe.Less(probe)`),
		},
		Expect: "N8, G4", Seen: "model check, bootstrap 3 and 6", Profiles: []string{"bootstrap", "swarm", "disk"}, MustKill: true,
	},
	{
		ID: "F10", Before: true, Rule: "no member at term 0 but the bootstrapper campaigns", Bug: "any member that holds entry 1 campaigns",
		Edits: []Edit{
			value("election.go", mayCampaignAnchor, `c.mayBeNeeded()`),
			value("message.go", `m.Term == 0 && !ok`, `false`),
		},
		Expect: "G16, L1", Seen: "model check, bootstrap", Profiles: []string{"bootstrap"}, MustKill: true,
	},
	{
		ID: "F11", Before: true, Rule: "replies to an earlier probe do not count", Bug: "they count",
		Edits:  []Edit{value("bootstrap.go", `f == nil || f.holding || r.ID != f.probe`, `f == nil || f.holding`)},
		Expect: "G16, L1", Profiles: []string{"bootstrap", "swarm", "disk"},
		Test: &Test{".", "TestBootstrap"},
	},
	{
		ID: "F12", Rule: "a bootstrap is durable before it is acknowledged", Bug: "the reply leaves before the write",
		Edits: []Edit{before("output.go", releaseAnchor,
			`if _, ok := o.message.Body.(BootstrapReply); ok { durable = true }`)},
		Expect: "N6", MustKill: true, Profiles: []string{"bootstrap", "swarm", "disk"},
	},
	{
		ID: "F13", Rule: "a bootstrapper sends entry 1 only once it is durable", Bug: "it sends it at once",
		Edits:  []Edit{value("bootstrap.go", `f.holding && !a.holds && c.disk.persisted >= 1`, `f.holding && !a.holds`)},
		Expect: "L1", Profiles: []string{"bootstrap", "swarm", "disk"},
		Alive: "a bootstrapper that lost entry 1 probes the members again, and who holds it at term 0 takes the new one: the rule saves a round, no more",
	},
	{
		ID: "F14", Rule: "holders of entry 1 are counted by incarnation", Bug: "they are counted by id",
		Edits:  []Edit{value("bootstrap.go", `a != nil && a.peer == from`, `a != nil`)},
		Expect: "L1", Profiles: []string{"bootstrap", "swarm", "disk"},
		Alive: "only the incarnation that answered the probe is sent entry 1, so that no other can acknowledge it: the check guards against what is impossible today",
	},
	{
		ID: "F15", Rule: "all members are probed before a cluster is bootstrapped", Bug: "a majority is enough",
		Edits: []Edit{before("bootstrap.go", bootstrapAnchor, `
			uninitialized := 1
			for _, a := range f.replies { if a.result == ProbeUninitialized { uninitialized++ } }
			if uninitialized >= majority(len(f.list.Members)) {
				for i := range f.replies { f.replies[i].result = ProbeUninitialized }
			}`)},
		Expect: "G16, L1", MustKill: true, Profiles: []string{"bootstrap", "swarm", "disk"},
	},
	{
		ID: "F16", Before: true, Rule: "a repeated bootstrap has a new cluster id", Bug: "it has the same id",
		Edits:  []Edit{value("bootstrap.go", `last^c.bootstrapper.probe.Counter`, `last`)},
		Expect: "G16, G2", Profiles: []string{"bootstrap", "swarm", "disk"},
		Test: &Test{".", "TestBootstrap"},
	},
	{
		ID: "D14", Rule: "a wiped disk is another member", Bug: "it answers and counts as the former member",
		Edits: []Edit{
			value("message.go", wrongIncarnation, `false`),
			value("message.go", `c.uninitialized() && !isAppend`, `false`),
			value("quorum.go", `slices.Contains(peers, p)`,
				`slices.ContainsFunc(peers, func(q Peer) bool { return q.ID == p.ID })`),
			value("election.go", mayCampaignAnchor,
				`func() bool { m, ok := c.config().Member(c.self.ID); return ok && m.Kind == Voter }() && c.hard.Term > 0`),
			value("leader.go", `l.peers[i].peer == p`, `l.peers[i].peer.ID == p.ID`),
		},
		Expect: "N7, G8, G3", Seen: "rethinkdb #5289; etcd #3504; dragonboat #256", MustKill: true,
		Profiles: []string{"disk", "swarm"},
	},
	{
		ID: "X01", Before: true, Rule: "another cluster's messages are refused", Bug: "they are accepted",
		Edits:  []Edit{value("message.go", `"it is of another cluster"`, `""`)},
		Expect: "N19, G14", Seen: "etcd #17081; model check, bootstrap", MustKill: true,
	},
	{
		ID: "X03", Rule: "a message for an earlier incarnation is refused", Bug: "it is accepted",
		Edits:  []Edit{value("message.go", wrongIncarnation, `false`)},
		Expect: "N19, G14", Profiles: []string{"disk", "swarm"}, MustKill: true,
	},
	{
		ID: "X08", Before: true, Rule: "a misdelivered message is refused", Bug: "it is accepted",
		Edits:  []Edit{value("message.go", `m.To.ID != c.self.ID || m.From == c.self`, `m.From == c.self`)},
		Expect: "N19", Seen: "etcd #17081", Profiles: []string{"bootstrap", "swarm"},
		Test: &Test{".", "Hostile|Refus|Misaddressed"},
	},
}

const (
	checkHeldAnchor   = "for _, a := range c.bootstrapper.replies {\n\t\tif !a.holds {"
	bootstrapAnchor   = "for _, a := range f.replies {\n\t\tif a.result != ProbeUninitialized {"
	mayCampaignAnchor = `c.mayBeNeeded() && c.hard.Term > 0`
	wrongIncarnation  = `m.To.Incarnation != c.self.Incarnation && !(probe && m.To.Incarnation == 0)`
)
