package fuzzy

import "github.com/coxswain/raft"

// checker is the simulation's global view, which no member has. The cost of a check does not grow with the run:
// logs are compared by a hash of their contents.
type checker struct {
	c                 *cluster
	canonical         []committedEntry           // the committed entries from index 1 on, appended by the first member that commits them
	machine           machine                    // the state that they lead to
	payloads          map[raft.SnapshotID][]byte // of all snapshots that were taken
	first             *raft.Bootstrap            // entry 1, once a snapshot was checked against it
	configs           map[uint64]*loggedConfig   // by the hash of the log up to their entry
	seen              []seenEntry                // by index: the first entry that any member had there
	others            map[raft.EntryID]uint64
	leaders           map[raft.Term]raft.Peer
	votes             map[voteKey]raft.Peer
	elections         int
	conflicts         int
	bootstraps        map[raft.ClusterID]uint64 // by cluster: the hash of its entry 1
	draws             int                       // of election timeouts
	shortest, longest raft.Time                 // of them
	timers            map[raft.Time]life        // by election timeout: the life that drew it last
	alike             int                       // timeouts that two lives drew
	said              map[startedAt]string      // where a start is reached
	tenure            tenure                    // of the leader of the highest term
}

type committedEntry struct {
	id   raft.EntryID
	hash uint64
	by   raft.Term // term of the leader that committed it first; never falls along the log

	state uint64 // digest of the state that a machine has once it has applied the entry
	slot  slot
}

type seenEntry struct {
	term raft.Term
	hash uint64
}

// voteKey identifies a disk and a term. An older image of a disk has lost votes and counts as another disk here;
// other checks ensure that nobody counts its new votes.
type voteKey struct {
	incarnation raft.Incarnation
	epoch       int
	term        raft.Term
}

func newChecker(c *cluster) *checker {
	return &checker{
		c: c, machine: newMachine(c.profile.Load.Keys), others: map[raft.EntryID]uint64{},
		leaders: map[raft.Term]raft.Peer{}, votes: map[voteKey]raft.Peer{},
		bootstraps: map[raft.ClusterID]uint64{}, configs: map[uint64]*loggedConfig{}, said: map[startedAt]string{},
	}
}

// committed returns the highest index that any member has committed.
func (k *checker) committed() raft.Index { return raft.Index(len(k.canonical)) }

// started checks a member whose core was just created from its disk.
func (k *checker) started(n *node, out *raft.Output) {
	before := raft.CoreStatus{}
	before.Term = n.disk.hard.Term
	k.terms(n, &before)
	k.shape(n)
	k.commits(n, &before)
	k.configuration(n, nil, out)
	n.seen.policy.says(out)
}

// stepped checks a member after each step.
func (k *checker) stepped(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	k.terms(n, before)
	k.progress(n, before)
	k.shape(n)
	if before.Term == 0 && n.status.Term > 0 {
		k.heldByAll(n)
	}
	k.durableBefore(n)
	k.configuration(n, before, out)
	k.role(n)
	k.leadership(n, before)
	k.commits(n, before)
	k.conversation(n, before, events, out)
	k.closes(n, events, out)
	k.limits(n, before, events, out)
	k.settled(n, out)
	k.verdicts(n, before, events, out)
	k.compaction(n, before, events, out)
	k.holdsOn(n)
	if k.c.profile.Members.on() {
		k.handsDown(n)
	}
	for i := range out.Trace {
		k.c.stats.decided(&out.Trace[i])
		if out.Trace[i].Kind == raft.TraceConflict {
			k.conflicts++
		}
	}
}

// broken ends the run. Frequent checks call it directly, since a call of cluster.holds evaluates its arguments even
// if the check succeeds.
func (k *checker) broken(rule, format string, args ...any) { k.c.fail(Safety, rule, format, args...) }
