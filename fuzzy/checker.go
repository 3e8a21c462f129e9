package fuzzy

import (
	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// checker sees the whole cluster; no member does. The cost of a check does not grow with the run, because logs are compared
// by hashes of their contents.
type checker struct {
	c                 *cluster
	canonical         []committedEntry           // all committed entries; the first member to commit an entry appends it
	rules             sessionRules               // the sessions after them
	machine           *machine                   // the state after the canonical entries
	payloads          map[raft.SnapshotID][]byte // the contents of all snapshots taken
	first             *raft.Bootstrap            // entry 1, set when a snapshot is first checked against it
	configs           map[uint64]*loggedConfig   // by the hash of the log up to the configuration's entry
	seen              []seenEntry                // by index: the first entry that any member had there
	others            map[raft.EntryID]uint64
	leaders           map[raft.Term]raft.Peer
	votes             map[voteKey]raft.Peer
	elections         int
	conflicts         int
	bootstraps        map[raft.ClusterID]uint64 // by cluster: the hash of its entry 1
	draws             int                       // number of election timeouts drawn
	shortest, longest raft.Time                 // election timeouts drawn
	timers            map[raft.Time]life        // by election timeout: the life that last drew it
	alike             int                       // number of timeouts that two lives drew
	announced         map[startedAt]string      // the address announced for each start
	founded           []*raft.Bootstrap         // the bootstraps of all clusters that have begun
	tenure            tenure                    // the tenure of the leader of the highest term
}

type committedEntry struct {
	id   raft.EntryID
	hash uint64
	by   raft.Term // term of the leader that committed it first; never falls along the log

	state uint64 // digest of a machine's state after it applies the entry
	slot  slot
	at    sim.Time // when it was committed first

	answer []byte // of the machine, if the run has sessions
}

type seenEntry struct {
	term raft.Term
	hash uint64
}

// voteKey identifies a disk and a term. An older image of a disk has lost its votes, so the image counts as another disk
// here. Other checks ensure that no member counts the votes of an older image.
type voteKey struct {
	incarnation raft.Incarnation
	epoch       int
	term        raft.Term
}

func newChecker(c *cluster) *checker {
	return &checker{
		c: c, machine: newMachine(&c.profile), others: map[raft.EntryID]uint64{},
		leaders: map[raft.Term]raft.Peer{}, votes: map[voteKey]raft.Peer{},
		bootstraps: map[raft.ClusterID]uint64{}, configs: map[uint64]*loggedConfig{}, announced: map[startedAt]string{},
	}
}

// committed returns the highest index that any member has committed.
func (k *checker) committed() raft.Index { return raft.Index(len(k.canonical)) }

// checkStart checks a member whose core was just created from its disk.
func (k *checker) checkStart(n *node, out *raft.Output) {
	before := raft.CoreStatus{}
	before.Term = n.disk.hard.Term
	k.checkTerm(n, &before)
	k.checkLogShape(n)
	if before.Term > 0 {
		k.checkOneCluster(n)
		k.checkBelongs(n, n.disk.cluster())
	}
	k.checkCommit(n, &before)
	k.checkConfiguration(n, nil, out)
	n.seen.policy.recordWrite(out)
}

// checkStep checks a member after each step.
func (k *checker) checkStep(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	k.checkTerm(n, before)
	k.checkProgress(n, before)
	k.checkLogShape(n)
	if before.Term == 0 && n.status.Term > 0 {
		k.checkHeldByAll(n)
	}
	if before.Durable.Term == 0 && n.status.Durable.Term > 0 {
		k.checkOneCluster(n)
	}
	k.checkPersisted(n)
	if before.Term > 0 {
		k.checkBelongs(n, before.Cluster)
	}
	k.checkConfiguration(n, before, out)
	k.checkRole(n)
	k.checkElection(n, before)
	k.checkCommit(n, before)
	k.checkClosing(n, events, out)
	k.checkConversation(n, before, events, out)
	k.checkOutdated(n, out)
	k.checkFresh(n, out.Fresh)
	k.checkLeases(n, before, events, out)
	k.checkLimits(n, before, events, out)
	k.checkSettled(n, out)
	k.checkMarks(n, before, events, out)
	k.checkCompaction(n, before, events, out)
	k.checkHeldState(n)
	if k.c.profile.Members.on() {
		k.recordTenure(n)
		k.checkOfTheTerm(n, before, events, out)
		k.c.lulls.checkGivenUp(n, out)
	}
	for i := range out.Trace {
		k.c.stats.decided(&out.Trace[i])
		if out.Trace[i].Kind == raft.TraceConflict {
			k.conflicts++
		}
	}
}

// broken ends the run. Frequent checks call it directly: a call of cluster.holds evaluates its arguments even if the
// check succeeds.
func (k *checker) broken(rule, format string, args ...any) { k.c.fail(Safety, rule, format, args...) }
