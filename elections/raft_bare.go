package elections

import "slices"

// Raft §5.2 to the letter: no PreVote, no leader stickiness, no CheckQuorum. It is a separate small state
// machine for comparison, because the core has no switch for any of these. Two variants of it show what the
// random timeouts are for.
//
// Source: D. Ongaro, J. Ousterhout, "In Search of an Understandable Consensus Algorithm", 2014, §5.1, §5.2 and
// Figure 2. All logs are empty, so that each is as new as any other (§5.4.1).

// raftBare is §5.2 with its random timeouts.
var raftBare = &Algorithm{
	Name:    "raft-bare",
	Title:   "Raft §5.2 to the letter",
	Source:  "Ongaro, Ousterhout, 2014, §5.2 and Figure 2; for comparison with the core, which has more",
	Assumes: bareAssumes,
	Guarantees: "At most one leader a term, and a majority of the configured members elects it. A leader that works does not stay: a single member that does not hear it raises the term and deposes " +
		"it, again and again. A leader that is cut off with a minority does not notice.",
	InCore: []*CorePart{coreMajority, coreVote, coreRedraw},
	Leaves: "A term that any member raises by itself: PreVote asks first, and a member that hears a leader refuses. An old " +
		"leader that keeps leading in a minority: CheckQuorum ends that.",
	Choices: bareChoices,
	Epochs:  true,
	New:     func(Options) Machine { return &bareRaft{} },
}

// raftFixed has no random timeouts.
var raftFixed = &Algorithm{
	Name:    "raft-fixed",
	Title:   "Raft §5.2, one fixed timeout",
	Source:  "Ongaro, Ousterhout, 2014, §5.2: what its random timeouts prevent",
	Assumes: bareAssumes,
	Guarantees: "What §5.2 guarantees, except for speed: all miss the leader at nearly the same time, all campaign, " +
		"each votes for itself, and one timeout later the same happens again.",
	InCore: []*CorePart{coreMajority, coreVote, coreRedraw},
	Leaves: "A timeout that is the same for all: the votes are split, and split again, until the delays of " +
		"messages happen to let one be first.",
	Choices: append([]string{"The timeout is the lowest of those that §5.2 draws from: 150 ms."}, bareChoices...),
	Epochs:  true,
	New:     func(Options) Machine { return &bareRaft{fixed: true} },
}

// raftRanked is the scheme that Raft's authors tried before the random timeouts, and gave up:
//
//	"each candidate was assigned a unique rank, which was used to select between competing candidates. If a
//	candidate discovered another candidate with higher rank, it would return to follower state so that the
//	higher ranking candidate could more easily win the next election. We found that this approach created
//	subtle issues around availability (a lower-ranked server might need to time out and become a candidate
//	again if a higher-ranked server fails, but if it does so too soon, it can reset progress towards electing
//	a leader)." (§5.2)
var raftRanked = &Algorithm{
	Name:    "raft-ranked",
	Title:   "Raft §5.2, ranked candidates",
	Source:  "Ongaro, Ousterhout, 2014, §5.2: the scheme that its authors tried first, and gave up",
	Assumes: bareAssumes,
	Guarantees: "What §5.2 guarantees, except for speed: a candidate gives way to a higher rank, so that this one " +
		"can win the next election. If the higher rank fails, everybody has waited in vain. A lower rank that " +
		"campaigns again too soon raises the term, which ends the election that the higher one had begun.",
	InCore: []*CorePart{coreMajority, coreVote, coreRedraw, coreRank},
	Leaves: "A candidate that gives way: any candidate may win, and a split vote is repeated after " +
		"a random wait.",
	Choices: append([]string{
		"The ranks stand in for the random timeouts: the timeout is 150 ms for all.",
		"A candidate gives way to a RequestVote of its own term alone, and then waits for a whole timeout.",
	}, bareChoices...),
	Epochs: true,
	New:    func(Options) Machine { return &bareRaft{fixed: true, ranked: true} },
}

const bareAssumes = "A known membership and a disk that keeps term and vote. Safety needs no assumption about time; progress needs " +
	"a timeout well above a round trip."

var bareChoices = []string{
	"A message that is lost is not sent again in its term: the next election, or heartbeat, says the same.",
	"A message leaves once its sender's term and vote are durable, as in the core.",
}

// The messages: the two RPCs of Figure 2, and their answers.
const (
	bareRequestVote   signal = "RequestVote"
	bareVote          signal = "Vote"
	bareAppendEntries signal = "AppendEntries" // a heartbeat: it has no entries
	bareAppended      signal = "Appended"
)

// bareMessage is one of these messages.
type bareMessage struct {
	signal
	term uint64
	ok   bool // in an answer: the vote is granted, or the sender is followed
}

// bareFields is the size of the arguments and results of Figure 2, except term, which each message has, and
// candidateId and leaderId, which are the sender.
var bareFields = map[signal]int{
	bareRequestVote:   2 * NumberBytes, // lastLogIndex, lastLogTerm
	bareVote:          1,
	bareAppendEntries: 3 * NumberBytes, // prevLogIndex, prevLogTerm, leaderCommit
	bareAppended:      1,
}

// Bytes returns the message's size.
func (m bareMessage) Bytes() int { return HeaderBytes + NumberBytes + bareFields[m.signal] }

// bareDisk: the write in progress is durable.
const bareDisk = AlgorithmTimer

// bareStore is the contents of a member's disk.
type bareStore struct {
	term uint64 // currentTerm
	vote Rank   // votedFor, in that term
}

// bareRaft is one member.
type bareRaft struct {
	fixed  bool // the election timeout is the same for all
	ranked bool // a candidate gives way to a higher rank

	bareStore
	leader    Rank // of this term, if it is known
	candidate bool
	votes     []Rank // for this candidate

	changes int           // of term and vote
	durable int           // the last one that the disk holds
	writing int           // the last one of the write in progress; 0: there is none
	written bareStore     // what it writes
	held    []bareHeldOne // messages that wait for the disk, in the order of sending
}

// bareHeldOne is a message that may leave once a change of term and vote is durable.
type bareHeldOne struct {
	to      Rank
	message bareMessage
	change  int
}

// Leader returns the leader that it follows, and the term.
func (b *bareRaft) Leader() (Rank, uint64) { return b.leader, b.term }

// Start: "When servers start up, they begin as followers."
func (b *bareRaft) Start(e *Env) {
	b.bareStore, _ = e.Stored().(bareStore)
	e.Rule("I start as a follower, in my durable term.")
	b.wait(e)
}

// wait restarts the election timeout. "Raft uses randomized election timeouts to ensure that split votes are
// rare": they are "chosen randomly from a fixed interval (e.g., 150–300ms)".
func (b *bareRaft) wait(e *Env) {
	e.Stop(TimerHeartbeat)
	if b.fixed {
		e.Set(TimerSuspect, e.Times().Silence)
		return
	}
	e.Set(TimerSuspect, e.Times().DrawTimeout(e.Random()))
}

// Receive handles a message:
//
//	"If RPC request or response contains term T > currentTerm: set currentTerm = T, convert to follower"
func (b *bareRaft) Receive(e *Env, from Rank, m Message) {
	message, ok := m.(bareMessage)
	if !ok {
		return // of another algorithm
	}
	if message.term > b.term {
		e.Rule("A newer term than mine: I take it over, as a follower.")
		led := b.leader == e.Self()
		b.change(bareStore{term: message.term})
		b.becomeFollower(0)
		if led {
			b.wait(e)
		}
	}
	switch message.signal {
	case bareRequestVote:
		b.onRequestVote(e, from, message.term)
	case bareVote:
		b.onVote(e, from, message)
	case bareAppendEntries:
		b.onAppendEntries(e, from, message.term)
	case bareAppended:
		b.onAppended(e, message)
	}
	b.work(e)
}

func (b *bareRaft) becomeFollower(leader Rank) {
	b.leader, b.candidate, b.votes = leader, false, nil
}

// onRequestVote is RequestVote's receiver:
//
//	"Reply false if term < currentTerm. If votedFor is null or candidateId, and candidate's log is at least as
//	up-to-date as receiver's log, grant vote"
func (b *bareRaft) onRequestVote(e *Env, from Rank, term uint64) {
	granted := term == b.term && (b.vote == 0 || b.vote == from)
	switch {
	case granted:
		e.Rule("My one vote of this term: it is durable before it leaves.")
		if b.vote == 0 {
			b.change(bareStore{b.term, from})
		}
		b.wait(e)
	case term < b.term:
		e.Rule("A candidate of an older term: I refuse my vote.")
	case b.ranked && b.candidate && from > e.Self():
		e.Rule("A candidate of higher rank: I give way so that it can win.")
		b.becomeFollower(0)
		b.wait(e)
	default:
		e.Rule("My vote of this term is given: I refuse.")
	}
	b.send(e, from, bareMessage{bareVote, b.term, granted})
}

func (b *bareRaft) onVote(e *Env, from Rank, m bareMessage) {
	switch {
	case !b.candidate || m.term != b.term:
		e.Rule("An answer that comes too late for me.")
	case m.ok:
		e.Rule("A vote for me.")
		b.count(e, from)
	default:
		e.Rule("A refusal: its vote was not for me.")
	}
}

// count counts a vote: "A candidate wins an election if it receives votes from a majority of the servers in the
// full cluster for the same term."
func (b *bareRaft) count(e *Env, voter Rank) {
	if slices.Contains(b.votes, voter) {
		return
	}
	if b.votes = append(b.votes, voter); 2*len(b.votes) <= e.N() {
		return
	}
	e.Rule("A majority of all voted for me in this term: I lead.")
	b.becomeFollower(e.Self()) // of itself: it is no longer a candidate
	e.Stop(TimerSuspect)
	b.beat(e)
}

// beat: "It then sends heartbeat messages to all of the other servers to establish its authority and prevent
// new elections."
func (b *bareRaft) beat(e *Env) {
	b.broadcast(e, bareAppendEntries)
	e.Set(TimerHeartbeat, e.Times().Heartbeat)
}

// onAppendEntries: "If the leader's term (included in its RPC) is at least as large as the candidate's current
// term, then the candidate recognizes the leader as legitimate and returns to follower state. If the term in
// the RPC is smaller than the candidate's current term, then the candidate rejects the RPC and continues in
// candidate state."
func (b *bareRaft) onAppendEntries(e *Env, from Rank, term uint64) {
	if term < b.term {
		e.Rule("A leader of an older term: I refuse, and send it my term.")
		b.send(e, from, bareMessage{bareAppended, b.term, false})
		return
	}
	e.Rule("The leader's heartbeat: I restart my election timeout.")
	b.becomeFollower(from)
	b.wait(e)
	b.send(e, from, bareMessage{bareAppended, b.term, true})
}

// onAppended handles an answer to a heartbeat. Because there is no log, the answer tells a leader nothing but the term.
func (b *bareRaft) onAppended(e *Env, m bareMessage) {
	if m.ok && m.term == b.term && b.leader == e.Self() {
		e.Rule("A follower answers, and tells me nothing new: I have no log.")
		return
	}
	e.Rule("An answer to a leadership of mine that has ended.")
}

// Fire handles an expired timer.
func (b *bareRaft) Fire(e *Env, t Timer) {
	switch t {
	case TimerHeartbeat:
		e.Rule("I lead: I send my heartbeats.")
		b.beat(e)
	case TimerSuspect:
		b.campaign(e)
	case bareDisk:
		e.Rule("My term and vote are durable: I send what waited for them.")
		b.persist(e)
	}
	b.work(e)
}

// campaign: "To begin an election, a follower increments its current term and transitions to candidate state. It
// then votes for itself and issues RequestVote RPCs in parallel to each of the other servers in the cluster." A
// candidate that times out does the same.
func (b *bareRaft) campaign(e *Env) {
	e.Elect()
	e.Rule("No leader for a timeout: I raise the term, and ask for votes.")
	b.becomeFollower(0)
	b.candidate = true
	b.change(bareStore{b.term + 1, e.Self()})
	b.broadcast(e, bareRequestVote)
	b.wait(e)
}

func (b *bareRaft) broadcast(e *Env, kind signal) {
	for to := Rank(1); to <= Rank(e.N()); to++ {
		if to != e.Self() {
			b.send(e, to, bareMessage{kind, b.term, false})
		}
	}
}

// send sends a message as soon as the present term and vote are durable.
func (b *bareRaft) send(e *Env, to Rank, m bareMessage) {
	if b.changes == b.durable {
		e.Send(to, m)
		return
	}
	b.held = append(b.held, bareHeldOne{to, m, b.changes})
}

// change changes term and vote.
func (b *bareRaft) change(now bareStore) {
	b.bareStore = now
	b.changes++
}

// work starts a write of all changes so far, as one record. Later changes wait until this write ends.
func (b *bareRaft) work(e *Env) {
	if b.writing == 0 && b.changes > b.durable {
		b.writing, b.written = b.changes, b.bareStore
		e.Set(bareDisk, e.Times().Durable)
	}
}

// persist ends a write, and sends the messages that waited for it. Once the write ends, a candidate's vote for itself counts.
func (b *bareRaft) persist(e *Env) {
	e.Keep(b.written)
	b.durable, b.writing = b.writing, 0
	leaves := 0
	for leaves < len(b.held) && b.held[leaves].change <= b.durable {
		e.Send(b.held[leaves].to, b.held[leaves].message)
		leaves++
	}
	b.held = b.held[leaves:]
	if b.candidate && b.changes == b.durable {
		b.count(e, e.Self())
	}
}
