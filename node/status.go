package node

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
)

// Status is everything that a node knows, in one value. In its JSON, enumerations are names.
type Status struct {
	ID          raft.NodeID
	Incarnation raft.Incarnation
	StartCount  uint64 // number of starts on this data
	ClusterName string // Config.Cluster
	Cluster     raft.ClusterID
	raft.Leadership
	LeaderMember *raft.Member      // nil if no leader is known
	Members      []MemberStatus    // of the configuration, or of Config.Initial while uninitialized; sorted by id, including this one
	Departing    []DepartingMember // on the leader: removed members that it still serves
	ConfigIndex  raft.Index        // entry that holds the configuration in force; 0: there is no cluster yet
	// ConfigCommitted is the index of the newest configuration that this member knows to be committed. While it is lower than
	// ConfigIndex, the configuration in force may be rolled back.
	ConfigCommitted raft.Index
	// Phase names the former and the new voters while the voters change: "joint: n1 n2 n3 → n1 n2 n4". Otherwise it is "".
	Phase string
	Level uint64 // feature level of the cluster, see raft.Configuration
	// AppVersionMin is as Node.AppVersionMin returns it.
	AppVersionMin uint64
	// Lease is how long the lease of this member still runs, see docs/reads.md. It is 0 if it does not lead, or has no lease.
	// LeaseDuration is how long leases last in this cluster; 0: there are none.
	Lease, LeaseDuration time.Duration
	// Change says what a change of members waits for. It is nil if no change is running, or if this member does not lead.
	Change    *ChangeStatus
	Base      raft.EntryID // the log begins after it; zero: at entry 1
	Last      raft.EntryID // last entry of the log
	LogBytes  int64        // size of the log on the disk; 0 if the storage keeps no snapshots
	Snapshot  SnapshotStatus
	Persisted raft.Index // last entry that is durable on this member
	Commit    raft.Index // last entry that is known to be committed
	Applied   raft.Index // last entry that the FSM has applied
	// Age is how old that state is at most: a read with raft.Stale of at least this age is served. It is 0 if nothing is proved.
	Age time.Duration
	// Applying is how long the present call of the FSM, or function of Read, has been running. It is 0 if none is running. If
	// a call never ends, it may wait for a goroutine that waits for the node: see ErrWithinFSM.
	Applying     time.Duration
	Bootstrapped bool // the cluster exists, and this member holds its first entry
	// Missing lists what the bootstrap of a cluster waits for, one sentence for each member. If this member or another was told
	// of a cluster (Node.Heard), it says so, and what to do if that cluster no longer exists.
	Missing []string
	// Wiped reports that this member's disk was emptied, see ErrWiped.
	Wiped bool
	// SlowElection describes slow elections. If there is no leader after more than two attempts, it says what takes longer
	// than the election timeout, and suggests a value for the timeout. If there is a leader, it says that leaders were lost
	// too often in the last two minutes. Otherwise it is "".
	SlowElection string
	// MajorityLost says in one sentence that the disks of a majority of the voters are lost, as seen from this member. In
	// this case no command can restore the cluster. Otherwise it is "".
	MajorityLost string
	// LeaderReason says in one sentence why there is no leader. If there is a leader, it says why the leader last changed.
	LeaderReason string
	// InOffice is how long the leader has led, as far as this member knows. It is 0 if no leader is known.
	InOffice time.Duration
	// Cause says why this member became the leader. It means nothing unless Role is raft.Leader.
	Cause raft.Cause
	// Successors are the voters that campaign once the leader is lost: the first one at once, the others in turn if it fails.
	// The leader has named them. The list is empty if it is not known, or if no voter could take over now.
	Successors []raft.NodeID
	// Backoff is how long this member still counts as one without priority, because it has lost its leadership against its
	// will. It is 0 if it does not.
	Backoff time.Duration
	// Caretaker reports that this member leads although its priority is raft.PriorityNever, because no other voter could.
	Caretaker bool
	// DiskStalled reports whether a write on this member has been pending for Config.DiskStallMax. A leader refuses proposals
	// then.
	DiskStalled bool
	// FSMHangs reports whether FSM.Apply has been running for Config.ApplyStallMax. A leader refuses proposals then.
	FSMHangs bool
	// NoRoom says in one sentence, with the error of RoomStorage.Room, that the disk has no room for more entries of the log.
	// A leader then refuses proposals with *raft.NoRoomError. NoRoom is "" while the disk has room.
	NoRoom string
	// SmallDisk says in one sentence that the disk is smaller than this member may need: see docs/storage.md. It is "" if the
	// disk is large enough, or if the storage is not a DiskStorage. The node checks the disk at its start and after each
	// snapshot. If the disk is too small, the member works nevertheless.
	SmallDisk string
	// Tolerance says in one sentence how many more failures the cluster survives, as seen from this member.
	Tolerance string
	// Pending counts the waiting calls of Propose and Barrier, and the callbacks of ProposeAsync that have not returned.
	// PendingBytes counts the bytes of their commands.
	Pending      int
	PendingBytes int
	// Certificate says how long this member can prove who it is. The node does not know it: package member fills it in, if there
	// are certificate files. Otherwise it is nil.
	Certificate *CertificateStatus
	// Findings are all verdicts that apply to the cluster and its members, as seen from this member, causes before their effects.
	// Package member adds those about certificates. Join the findings of all members before you judge a cluster: see
	// admin.Diagnose.
	Findings []Finding
	// Err is the error that has ended the node or is about to end it. It is nil while the node runs.
	Err error

	suspected    raft.NodeID   // see raft.CoreStatus
	told, founds bool          // of a cluster: see Node.Heard; with Config.Founders
	patience     time.Duration // heardTimeouts
	appliesLate  time.Duration // see appliedIndex.late
	timeout      time.Duration // Config.ElectionTimeout
	slowWrite    time.Duration // see slowDisk; 0: the disk is fast enough

	noDescriptors bool          // NoRoom, because the process has no file descriptor left
	clockJump     time.Duration // see clockWatch; 0: none lately
	clockJumpAt   time.Time
}

// MemberStatus is what a node knows about one member of its configuration.
type MemberStatus struct {
	raft.Member
	// State is "self" for this member. For other members it is "probe", "replicate", "snapshot" or "stale" on the leader, and
	// "" elsewhere. A member in "snapshot" lacks entries that the leader has compacted, so the leader sends it a snapshot. A
	// stale member holds less than it has acknowledged to this leader: it runs on an older image of its disk, or the disk has
	// lost synced data. The leader does not count a stale member.
	State string
	// The next fields are set only on the leader. The leader knows that the member's disk holds the log up to Match. Lag is
	// the number of entries that the member lacks. Inflight is the number of appends that the member has not answered.
	Match    raft.Index
	Lag      uint64
	Inflight int
	// LastContact is the time since this member last heard the other member. It is -1 if this member has never heard it.
	LastContact   time.Duration
	Connected     bool
	ConnectionErr string // why it is not connected, or why the connection last broke; "": it never did
	RoundTrip     time.Duration
	RefusedFor    time.Duration // see raft.PeerStatus
	// Standing is "voter" or "learner". While a change is running, it may also be "joins" (a learner that will vote once it
	// has caught up), "enters" (it votes only among the new voters) or "leaves" (it votes only among the former voters).
	Standing string
	CatchUp  *CatchUp // only set on the leader, for a member without a vote
	// Backoff is as in Status. It is only set on the leader, and for this member.
	Backoff time.Duration
	Dialed  string // address of its connection, or the address dialed last
	// Protocol is the version of the protocol on the present or last connection to the member: the highest version that both
	// sides know. It is 0 if it is not known. If the other member runs an earlier release, Protocol is lower than this
	// member's own version.
	Protocol uint16
	// Announced is the version of the application that the member's program has announced last (Config.AppVersion). It is 0 if
	// it has none, or if it is not known. Member.AppVersion is the version in the configuration.
	Announced uint64
	// Release is the release of this library that the member announces. It is "" if it is not known: the member's program was
	// built without a version, or its release is v0.1.0 or earlier.
	Release string
	// Replace reports whether the member will never count again by itself, because it has lost its disk or entries that it
	// acknowledged. If so, replace the member (Node.ReplaceMember). Replace is false while Status.MajorityLost is set,
	// because then no member can be replaced.
	Replace bool
	// Differs lists the settings that should be the same on all members, but are known to differ between this member and the
	// member that made this status.
	Differs []SettingDifference
	// Problem says in one sentence why the member does not count, as seen from the member that made this status. For the
	// member that made this status, Problem says why it does not serve. Problem is "" if there is no problem.
	Problem string
	// Verdict is the name of Problem, for programs: one of Verdicts. Verdict is "" if there is no problem. A voter whose verdict
	// does not have Verdict.Counts does not count in Status.Tolerance.
	Verdict string

	settings    settings           // last announced settings
	appendLimit int                // see Node.appendLimitTo
	progress    *raft.PeerProgress // only set on the leader, for other members
	outgoing    bool               // it votes among the former voters
	earlier     bool               // see raft.PeerProgress.EarlierRelease
	changed     bool               // the members have been changed, which no earlier release can read
	refusal     *raft.Rejection    // its present rejection of this member; nil: none
	refused     *raft.Rejection    // this member's rejection of it since the last connection; nil: none
	hindered    raft.Hindrance     // why it does not count, as it reports itself
	lags        time.Duration      // how long it has been behind the leader's log; 0: it is not

	badCertificate bool // it is not connected because one of the two does not accept the other's certificate

	excluded string // why it does not count as a voter; "": it counts
	away     bool   // it is excluded because it cannot be reached
}

// votes reports whether the member is a voter. While the voters change, a voter of either half counts.
func (m *MemberStatus) votes() bool { return m.Kind == raft.Voter || m.outgoing }

// stuck reports whether the member can never catch up, because its release takes no snapshot or cannot read the log.
func (m *MemberStatus) stuck() bool { return m.earlier && (m.State == "snapshot" || m.changed) }

// Status returns what the node knows now. Any goroutine may call it, even after the node has ended. It waits for the
// loop, which never blocks.
func (n *Node) Status() Status {
	applied, age := n.stateAge() // first, so that it is not beyond Commit
	core := n.coreStatus()
	wiped := n.identity.wiped.Load()
	proposals, _, bytes := n.requests.depth()
	s := Status{
		ID: core.ID, Incarnation: core.Incarnation, StartCount: core.StartCount,
		ClusterName: n.cfg.Cluster, Cluster: core.Cluster, Leadership: core.Leadership,
		ConfigIndex: core.ConfigIndex, ConfigCommitted: core.ConfigCommitted, Phase: phase(core.Config), Level: core.Config.Level, AppVersionMin: core.AppVersionMin,
		Lease: n.lease.remaining(n.now().Mono), LeaseDuration: core.Config.LeaseDuration,
		Change: n.changeStatus(core),
		Base:   core.Base, Last: core.Last, LogBytes: n.logBytes(), Snapshot: n.snapshotStatus(core),
		Persisted: core.Persisted, Commit: core.Commit, Applied: applied, Age: age, Applying: n.fsmCalls.since(),
		Bootstrapped: core.Cluster != raft.ClusterID{}, Wiped: wiped, suspected: core.Suspected.ID, told: core.Heard.From != "", founds: len(n.cfg.Founders) > 0,
		DiskStalled: core.DiskStalled, FSMHangs: core.FSMHangs, NoRoom: noRoom(n.roomWatch.trouble.get()), SmallDisk: textOf(n.disk.get()),
		Pending: proposals, PendingBytes: bytes, Err: cmp.Or(n.Err(), n.markError()),
		InOffice: n.history.inOffice(n.now().Mono, core.Leadership), Cause: core.Cause, Backoff: time.Duration(core.Backoff), Caretaker: core.Caretaker,
	}
	for _, p := range core.Successors {
		s.Successors = append(s.Successors, p.ID)
	}
	s.Members, s.Departing = n.memberStatuses(core, s.Snapshot), n.departing(core)
	if core.Leader != "" {
		m := n.identity.leader(core.Leadership)
		s.LeaderMember = &m
	}
	s.patience, s.appliesLate, s.timeout = heardTimeouts*n.cfg.ElectionTimeout, n.applied.late(), n.cfg.ElectionTimeout
	s.noDescriptors = files.NoDescriptor(n.roomWatch.trouble.get())
	s.slowWrite = n.slowDisk.median(time.Now(), n.cfg.ElectionTimeout)
	s.clockJump, s.clockJumpAt = n.clockWatch.last(time.Now())
	if core.Leader == "" { // with a leader, a majority works
		s.MajorityLost = n.identity.majorityLost()
	}
	s.SlowElection = cmp.Or(slowElection(core, n.cfg.ElectionTimeout), n.history.unsettled(n.now().Mono, n.cfg.ElectionTimeout))
	s.Missing = missing(core, s.Members)
	s.judge()
	s.LeaderReason = leaderReason(&s, n.history.lastReason())
	s.Findings = findings(&s)
	return s
}

// heardTimeouts is a number of election timeouts. If a member is silent for longer, it counts as out of reach. If it lacks
// entries for longer, it counts as behind.
const heardTimeouts = 4

// coreStatus asks the loop, or returns the last status of a loop that has ended.
func (n *Node) coreStatus() (s raft.CoreStatus) {
	if !n.inspect(func(c *raft.Core) { s = c.Status() }) {
		return n.lastStatus
	}
	return s
}

// inspect makes the loop call look, which only reads the core, and returns once look has returned. It returns false if the loop
// has ended: then look is not running.
func (n *Node) inspect(look func(*raft.Core)) bool {
	select {
	case <-n.loopEnded:
		return false
	default:
	}
	looked := make(chan struct{})
	n.mailbox.inspect(func(c *raft.Core) {
		look(c)
		close(looked)
	})
	select {
	case <-looked:
		return true
	case <-n.loopEnded:
		return false
	}
}

func (n *Node) memberStatuses(core raft.CoreStatus, snapshots SnapshotStatus) []MemberStatus {
	config := core.Config
	if len(config.Members) == 0 {
		config = n.identity.initial
	}
	progress := make(map[raft.Peer]raft.PeerProgress, len(core.Peers))
	for _, p := range core.Peers {
		progress[raft.Peer{ID: p.ID, Incarnation: p.Incarnation}] = p
	}
	now, out := time.Now(), make([]MemberStatus, 0, len(config.Members))
	for _, m := range config.Members {
		if m.Peer() == n.identity.self || m.ID == core.ID && m.Incarnation == 0 {
			out = append(out, MemberStatus{
				Member: m, State: "self", Match: core.Persisted, Connected: true, Standing: standing(config, m),
				Protocol: raft.ProtocolNewest, Release: release(), Announced: n.cfg.AppVersion, Backoff: time.Duration(core.Backoff),
				Replace: n.identity.wiped.Load() || n.markError() != nil, outgoing: config.VotesIn(m.Peer())&raft.OutgoingHalf != 0,
			})
			continue
		}
		s := MemberStatus{Member: m, LastContact: -1, Standing: standing(config, m)}
		s.outgoing = config.VotesIn(m.Peer())&raft.OutgoingHalf != 0
		var heard time.Time
		if heard, s.refusal, s.refused = n.identity.seen(m.Peer()); !heard.IsZero() {
			s.LastContact = now.Sub(heard)
		}
		if p, ok := progress[m.Peer()]; ok {
			s.CatchUp = n.catchUp(p, core.Last.Index, snapshots)
			s.State, s.Match, s.Inflight, s.earlier = p.State, p.Match, p.Inflight, p.EarlierRelease
			s.changed, s.hindered, s.progress = core.Config.Level > 0, p.Hindered, &p
			s.Backoff = time.Duration(p.Backoff)
			if p.LagsSince > 0 {
				s.lags = time.Duration(n.now().Mono - p.LagsSince)
			}
			s.Lag = uint64(core.Last.Index - min(p.Match, core.Last.Index))
		}
		peer := n.connection(m.Peer())
		s.Connected, s.RoundTrip, s.Dialed, s.RefusedFor = peer.Connected, peer.RoundTrip, peer.Address, peer.RefusedFor
		n.addAnnounced(&s)
		s.Replace = needsReplacement(s)
		if peer.Err != nil {
			s.ConnectionErr, s.badCertificate = peer.Err.Error(), ofCertificate(peer.Err)
		}
		out = append(out, s)
	}
	return out
}

// missing returns Status.Missing: what the core reports about a bootstrap, and the problems that the connections show.
func missing(core raft.CoreStatus, members []MemberStatus) []string {
	if core.Term != 0 {
		return nil
	}
	out := append([]string(nil), core.Missing...)
	if core.Heard.From != "" {
		out = append(out, "it was last told so at "+time.Unix(0, core.HeardAt).UTC().Format(time.RFC3339))
	}
	emptied, bootstrapper := 0, bootstrapperOf(members)
	for _, m := range members {
		switch r := m.refusal; {
		case r != nil && r.Reason == raft.RejectNamedOther && r.Term == 0:
			emptied++
		case r != nil:
			out = append(out, fmt.Sprintf("%s: %v", m.ID, r))
		case core.Uninitialized && !m.Connected && m.ConnectionErr != "":
			out = append(out, fmt.Sprintf("%s: %s", m.ID, m.ConnectionErr))
		case m.Address == "" && string(m.ID) != bootstrapper: // until there is a cluster, nobody but the bootstrapper needs to reach it
		case core.Uninitialized && len(core.Missing) == 0 && m.State != "self" && m.LastContact < 0: // the bootstrapper's core reports it itself
			out = append(out, fmt.Sprintf("%s has not been heard", m.ID))
		}
	}
	if emptied > 0 && emptied == len(members)-1 {
		out = append(out, "nothing was ever committed, and this member's disk was emptied: empty all stores and start again")
	}
	return out
}

// tolerance returns Status.Tolerance: how many more failures the cluster survives, and which voters do not count although
// they can be reached.
func tolerance(s *Status) string {
	sentence := failuresLeft(s)
	for i := range s.Members {
		switch m := &s.Members[i]; {
		case m.excluded == "" || m.away || s.Wiped || !m.votes():
		case m.stuck() && m.changed:
			sentence += fmt.Sprintf("; %s does not count until it is upgraded: it cannot read how the members were changed", m.ID)
		case m.stuck():
			sentence += fmt.Sprintf("; %s does not count until it is upgraded: it lacks entries that are compacted here", m.ID)
		default:
			sentence += fmt.Sprintf("; %s does not count: %s", m.ID, m.excluded)
		}
	}
	return sentence
}

func failuresLeft(s *Status) string {
	h := weakerHalf(s)
	switch {
	case s.Err != nil:
		return "unknown here: this member has ended"
	case s.Wiped:
		return "unknown here: this member's disk was emptied, and it does not count"
	case h.voters == 0:
		return "no configuration is known here yet"
	case !s.Bootstrapped:
		return fmt.Sprintf("no cluster is known here yet; a cluster of %s survives %s",
			h.counted(), count(h.voters-h.quorum(), "failure"))
	case h.up < h.quorum():
		return fmt.Sprintf("the cluster does not work as seen from here: %d of %s %s, %d are needed", h.up, h.counted(), h.verb(), h.quorum())
	case s.Leader == "":
		return fmt.Sprintf("the cluster has no leader as seen from here: %d of %s %s, and a quorum is %d", h.up, h.counted(), h.verb(), h.quorum())
	case h.up == h.quorum():
		return fmt.Sprintf("none: %d of %s %s, and the next failure stops the cluster", h.up, h.counted(), h.verb())
	}
	return fmt.Sprintf("the cluster survives %s more: %d of %s %s", count(h.up-h.quorum(), "failure"), h.up, h.counted(), h.verb())
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// bootstrapperOf returns the id of the first voter, which bootstraps the cluster.
func bootstrapperOf(members []MemberStatus) string {
	for _, m := range members {
		if m.Kind == raft.Voter {
			return string(m.ID)
		}
	}
	return "a voter"
}

// leaderReason returns why there is no leader. If there is a leader, it returns why the leader last changed.
func leaderReason(s *Status, last string) string {
	h := weakerHalf(s)
	switch {
	case s.Err != nil:
		return fmt.Sprintf("this node has ended: %v", s.Err)
	case s.MajorityLost != "":
		return "no leader: " + s.MajorityLost
	case s.Wiped:
		return "this member's disk was emptied: the cluster knows it with another incarnation"
	case s.Role == raft.Leader && s.NoRoom != "":
		why := fmt.Sprintf("%s leads in term %d, but %s; until then it refuses proposals", s.Leader, s.Term, s.NoRoom)
		if h.quorum() > 1 {
			why += ", and transfers leadership to the other voters in turn"
		}
		return why
	case s.Role == raft.Leader && s.DiskStalled:
		return fmt.Sprintf("%s leads in term %d, but its disk has stalled: it refuses proposals, "+
			"and transfers its leadership as soon as a quorum of the others may be ahead of it", s.Leader, s.Term)
	case s.Role == raft.Leader && s.FSMHangs:
		return fmt.Sprintf("%s leads in term %d, but its FSM hangs, in a call of Apply that has been running for %v: it refuses proposals, "+
			"and transfers its leadership as soon as a voter that it hears has applied the same entries", s.Leader, s.Term, s.Applying.Round(time.Second))
	case s.Leader != "":
		return cmp.Or(last, fmt.Sprintf("%s leads in term %d", s.Leader, s.Term))
	case s.told:
		return "no cluster yet: " + strings.Join(s.Missing, "; ")
	case len(s.Members) == 0:
		return "no cluster yet: this member's store is empty and it has no list of initial members, so it waits to be added"
	case !s.Bootstrapped || s.Term == 0:
		return notBootstrapped(s)
	case h.reached < h.quorum():
		return fmt.Sprintf("no leader: %d of %s can be reached, %d are needed%s", h.reached, h.counted(), h.quorum(), unconnected(s))
	}
	return cmp.Or(s.SlowElection, last, fmt.Sprintf("no leader: an election follows term %d", s.Term))
}

// unconnected returns the known reasons why voters are not connected. If one of the two members rejects the other, the
// error says what to do.
func unconnected(s *Status) (sentence string) {
	for _, m := range s.Members {
		if m.votes() && !m.Connected && m.ConnectionErr != "" {
			sentence += fmt.Sprintf("; %s: %s", m.ID, m.ConnectionErr)
		}
	}
	return sentence
}

// slowElection returns why elections take more than two attempts, if something takes longer than the election timeout.
// Otherwise it returns "".
func slowElection(core raft.CoreStatus, timeout time.Duration) string {
	what, took := core.Election.Slowest()
	if core.Leader != "" || core.Election.Attempts <= 2 || time.Duration(took) <= timeout {
		return ""
	}
	return fmt.Sprintf("no leader after %d attempts: %s took %v, and the election timeout is %v: if that is usual, set it to %v "+
		"or more on all members",
		core.Election.Attempts, what, time.Duration(took).Round(time.Millisecond), timeout, enoughFor(took))
}

// enoughFor returns an election timeout that allows two exchanges as slow as the one observed.
func enoughFor(took raft.Time) time.Duration {
	return (2 * time.Duration(took)).Round(10 * time.Millisecond)
}

// notBootstrapped returns what the bootstrap of the cluster waits for. Every member of the list must answer the bootstrapper
// once. Only the bootstrapper knows which members have not answered. The other members name the bootstrapper, and add the
// problems that they see themselves.
func notBootstrapped(s *Status) string {
	bootstrapper := bootstrapperOf(s.Members)
	if string(s.ID) == bootstrapper {
		const reason = "no cluster yet: this member bootstraps it once every member of the list has answered"
		return strings.Join(append([]string{reason}, s.Missing...), "; ")
	}
	reason := "no cluster yet: this member waits for the bootstrapper, " + bootstrapper + ", which bootstraps it once every " +
		"member of the list has answered its probe, and whose status says who is missing"
	for _, m := range s.Missing {
		reason += "; seen from here, " + m
	}
	if !s.founds { // otherwise package member knows whether the bootstrapper answers
		reason += "; if " + bootstrapper + " is permanently lost and every member says this, nothing was ever committed: empty all stores and start again"
	}
	return reason
}
