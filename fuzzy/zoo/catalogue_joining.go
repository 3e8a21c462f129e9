package zoo

// joining: mutants in four places. A member chooses the peers that it dials while the membership changes. Members make
// contact before a change. A member joins, or corrects its entry, by itself. A member sets its store aside.
var joining = []Mutant{
	tested("M128", "a member that left is dialed until it had time to learn so", "it is dropped at once", "internal/pipeline", "Contacts_Union",
		instead("internal/pipeline/contacts.go", `c.leave(leaver{m, now + c.patience})`, `_ = m`)),
	tested("M129", "a member that is named again has not left", "it is dialed twice", "internal/pipeline", "Contacts_Union",
		instead("internal/pipeline/contacts.go", `delete(c.leavers, m.Peer())`, `_ = m`)),
	testedFirst("M130", "a member that is to join is dialed once", "its call makes it a caller as well",
		"internal/pipeline", "AnInvitedMemberIsDialedOnce",
		value("internal/pipeline/contacts.go", `!leaves && !joins`, `!leaves`)),
	tested("M131", "of too many callers, the one that was silent longest is dropped", "the latest one is", "internal/pipeline", "CallersAreBounded",
		value("internal/pipeline/contacts.go", `cmp.Compare(a.heard, b.heard)`, `cmp.Compare(b.heard, a.heard)`)),
	tested("M132", "strangers of other clusters are not dialed back", "they are", "internal/pipeline", "NotEveryCaller",
		value("internal/pipeline/contacts.go", `h.Cluster != raft.ClusterID{} && (cluster == raft.ClusterID{} || cluster == h.Cluster)`, `h.Cluster != raft.ClusterID{}`)),
	testedFirst("M133", "an invitation ends once a configuration names the member", "it is dialed twice", "internal/pipeline", "AnInvitedMemberIsDialedOnce",
		value("internal/pipeline/contacts.go", `!before`, `false`)),
	tested("M134", "a member that was dropped is dialed again once it speaks", "it is forgotten", "internal/pipeline", "ARemovedMemberIsNoLongerDialed",
		instead("internal/pipeline/contacts.go", `c.call(caller{peer: p, address: l.member.Address})`, `_ = l`)),
	tested("M135", "a member does not dial its own address for another incarnation of itself", "it does", "internal/pipeline", "DoesNotDialItself",
		value("internal/pipeline/contacts.go", `!ownPlace`, `true`)),
	tested("M202", "two members of one id may swap addresses", "neither finds the other", "fuzzy", "TwinsChangePlaces",
		instead("internal/pipeline/contacts.go", `all = append(all, former)`, `_ = former`)),
	testedFirst("M136", "a member that restarts also dials the members of the previous configuration", "it dials only those of the newest",
		"node", "Contacts_ARestart",
		value("internal/pipeline/contacts.go", `len(configs) > 1`, `false`)),
	testedFirst("M137", "a configured member does not count as one that answers an invitation", "it does", "node", "Invitations_TheFormerSelf",
		value("node/invite.go", `inv != nil && !named`, `inv != nil`)),
	testedFirst("M138", "one change makes contact at a time", "several do", "node", "ContactIsMade",
		value("node/invite.go", `len(v.open) > 0`, `false`)),
	testedFirst("M139", "a deposed leader stops making contact", "it continues until the time is over", "node", "ContactIsMade",
		instead("node/invite.go", `return 0, v.node.notLeader(now.Leader, "")`, `_ = now`)),
	testedFirst("M140", "the process at the address of a replacement is asked who it is", "any incarnation is dialed", "node", "Change_ReplacesNobody",
		instead("node/invite.go", `inv.asks = unusedIncarnation(in.Configuration, m.ID, 0)`, `_ = in`)),
	testedFirst("M141", "a temporary rejection is waited out", "it ends the contact", "node", "Invitations_ARejectionThatMayPass",
		value("node/invite.go", `r == nil || mayPass(r.Reason)`, `r == nil`)),
	tested("M142", "contact that was not made leaves nothing behind", "no other change can make contact any more", "node", "Change_AnUnreachable",
		instead("node/invite.go", `v.end()`, `_ = v`)),
	testedFirst("M143", "a failed dial of another incarnation says nothing about the member that is to join", "its refusal counts",
		"node", "Invitations_TheFormerSelf",
		value("node/invite.go", `p != inv.peer()`, `false`)),
	tested("M144", "the leader judges a change before it makes contact", "it dials first", "node", "Change_AnUnknownMember",
		instead("node/invite.go", `if err := v.refused(c, joining, m, ifIndex); err != nil {
		return c, nil, v.confirmed(ctx, m.now.Index, err)
	}`, `_ = ifIndex`)),
	testedFirst("M145", "a start that called before it was invited can reach the leader", "it must call again", "node", "Invitations_ACallBefore",
		before("node/invite.go", `v.since = time.Now()`, `clear(v.callers)`)),
	tested("M146", "each move of a store is durable", "the directory that it has left is not synced", "storage", "SetAside_EachCrash",
		instead("storage/setaside.go", `return disk.SyncDir(from)`, `return nil`)),
	tested("M240", "the last new name is durable before the record of a set-aside is removed", "the call that finishes does not sync it", "storage", "SetAside_EachCrash",
		instead("storage/setaside.go", `if err := disk.SyncDir(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}`, `_ = to`)),
	tested("M241", "a second call finishes a set-aside that the first has begun", "it begins anew", "storage", "SetAside_EachCrash",
		instead("storage/asiderecord.go", `return a, sound, nil`, `return a, sound && false, nil`)),
	testedFirst("M242", "a process locks the directory of its store", "it locks only raft.db", "storage", "SetAside_KeepsOthers",
		value("storage/lock.go", `tryLock(file)`, `error(nil)`)),
	tested("M243", "a copy is durable before the original is deleted", "it is not synced", "storage", "SetAside_EachCrash",
		instead("storage/setaside.go", `return target.Sync()`, `return nil`)),
	testedFirst("M244", "a store that an earlier release has made beside the record is not set aside", "it replaces the former one",
		"storage", "SetAside_BesideAnEarlier",
		value("storage/asiderecord.go", `present != a.File`, `false`)),
	testedFirst("M245", "no start continues beside a set-aside that has not ended", "it does", "storage", "SetAside_NoStart",
		value("storage/restore.go", `unfinishedAside(dir)`, `error(nil)`)),
	tested("M147", "each store that is set aside gets a new directory", "it gets that of a store set aside in the same second",
		"storage", "SetAside_EachCrash|SetAside_TheNextStart",
		before("storage/setaside.go", `for candidate, number := name, 2; ; number++ {`, `if true { return name, nil }`)),
	tested("M148", "a store that was set aside while it was opened is not used", "it is", "storage", "SetAside_Beside",
		before("storage/setaside.go", `opened, err := file.Stat()`, `if true { return nil }`)),
	testedFirst("M149", "a member without seeds corrects its entry", "only one that looks for its cluster does", "member", "Entry_IsCorrected",
		value("member/member.go", `m.cfg.corrects()`, `m.cfg.founding()`)),
	testedFirst("M150", "a member that looks for no cluster asks nobody", "it asks for seeds", "joining", "Seeker_AMemberWithoutSeeds",
		value("joining/seeker.go", `!s.cfg.EntryOnly`, `true`)),
	testedFirst("M151", "a running member keeps its place until it has ended", "a replacement at another address takes it", "node", "ReplaceMember_ByAnother",
		value("node/petition.go", `r.New.Address != old.Address`, `false`)),
	testedFirst("M152", "a removed member stays out", "it starts again by itself", "internal/demo/member", "Looking_WhichMember",
		value("internal/demo/member/looking.go", `removed.Index == cfg.Rejoin`, `true`)),
	testedFirst("M153", "a store is set aside only with leave", "it is after each start", "internal/demo/member", "Looking_WhichMember",
		value("internal/demo/member/looking.go", `cfg.SetAside && damaged(err)`, `damaged(err)`)),
	testedFirst("M158", "a member that is invited again is dialed anew", "the connection of the former invitation stays, and proves nothing",
		"node", "ContactIsMadeAgain",
		instead("node/invite.go", `if err := v.node.contacts.settled(ctx); err != nil {
		return c, nil, err
	}`, `_ = ctx`)),
	{
		ID: "M157", Rule: "the senders to members that are to join stay", Bug: "they end with those to strangers", Outside: true,
		Edits:  []Edit{value("node/contacts.go", `k.Peer() == p || k.Peer() == raft.Peer{ID: p.ID}`, `k.Peer() == p`)},
		Expect: "tests", Alive: "the next message starts another sender, and queued messages may be lost on any link and are sent again",
	},
}

// tested returns a mutant in code that the simulator does not run. It is newer than the tests that kill it.
func tested(id, rule, bug, where, run string, edits ...Edit) Mutant {
	return Mutant{ID: id, Rule: rule, Bug: bug, Edits: edits, Expect: "tests", Test: &Test{where, run}, Outside: true}
}

// testedFirst is like tested, for a mutant that existed before its test: the test was written for the mutant.
func testedFirst(id, rule, bug, where, run string, edits ...Edit) Mutant {
	m := tested(id, rule, bug, where, run, edits...)
	m.Before = true
	return m
}
