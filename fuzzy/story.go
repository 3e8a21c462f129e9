package fuzzy

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// storyMax is the maximum number of lines of a story.
const storyMax = 40

// Tell runs a case and returns its story: the events that decided the outcome, one sentence per line. If there are too many
// events, those that concern the failure and those shortly before it have priority.
func (c *Case) Tell() []string {
	t := &teller{open: map[string]*[sentenceKinds]*sentence{}, seen: map[string]Record{}}
	r := RunCase(c, t.take)
	return t.story(r.Failure)
}

// sentenceKind is the subject of a sentence.
type sentenceKind int

const (
	tellsTimeout sentenceKind = iota
	tellsConflict
	tellsDenial
	tellsEntries
	tellsCommit // sentences of the kinds up to here can be continued after others
	tellsBootstrap
	tellsApply // of an application
	tellsQuorumLost
	tellsEnd // of a fault
	tellsCampaign
	tellsVote
	tellsStart
	tellsMembers
	tellsCut
	tellsSnapshot // of an application
	tellsDeath
	tellsLeader
	tellsFault
	tellsFailure
	sentenceKinds
)

// weights order the kinds of sentences. A sentence about the subject of the failure weighs namedWeight more. Later sentences
// weigh more than earlier ones. The last sentence weighs lateWeight more.
var weights = [sentenceKinds]int{
	tellsTimeout: 20, tellsBootstrap: 30, tellsConflict: 60, tellsDenial: 90, tellsEntries: 120, tellsCommit: 140, tellsApply: 140,
	tellsQuorumLost: 150, tellsEnd: 150, tellsCampaign: 170, tellsVote: 180, tellsStart: 200, tellsMembers: 230, tellsCut: 240, tellsSnapshot: 240,
	tellsDeath: 250, tellsLeader: 280, tellsFault: 300, tellsFailure: 10_000,
}

// episode is the longest pause within one sentence about a span of entries.
const episode = sim.Time(20_000_000)

const (
	namedWeight = 100
	lateWeight  = 100
)

// sentence is one line of a story.
type sentence struct {
	at    sim.Time
	until sim.Time // when it was last continued
	kind  sentenceKind
	node  string
	text  string
	more  int // further occurrences of the same event
	term  raft.Term
	first raft.Index // the first entry of its span
	last  raft.Index
}

// teller turns records into sentences.
type teller struct {
	nodes     []string
	sentences []*sentence
	open      map[string]*[sentenceKinds]*sentence // by node: sentences that can be continued
	seen      map[string]Record                    // by node: its last step
}

func (t *teller) take(r *Record) {
	switch r.Kind {
	case "begin":
		t.nodes = r.Nodes
	case "fault":
		if r.Cut != nil {
			return // the fault that cut the links has its own sentence
		}
		kind := tellsFault
		if strings.HasSuffix(r.Text, " ends") {
			kind = tellsEnd
		}
		t.say(r, kind, r.Text)
	case "apply":
		t.say(r, tellsApply, r.Text)
	case "snapshot":
		t.say(r, tellsSnapshot, r.Text)
	case "heal":
		t.say(r, tellsFault, r.Text)
	case "crash":
		t.say(r, tellsDeath, "dies; "+r.Text)
		delete(t.seen, r.Node)
	case "start":
		kind := tellsStart
		if r.Term == 0 {
			kind = tellsBootstrap
		}
		t.say(r, kind, fmt.Sprintf("starts in term %d, its log ends at %d@%d", r.Term, r.Last[0], r.Last[1]))
		t.step(r)
		t.seen[r.Node] = *r
	case "step":
		t.step(r)
		t.seen[r.Node] = *r
	}
}

func (t *teller) say(r *Record, kind sentenceKind, text string) *sentence {
	s := &sentence{at: r.Time, kind: kind, node: r.Node, text: text, term: r.Term}
	t.sentences = append(t.sentences, s)
	if kind > tellsCommit {
		delete(t.open, r.Node)
	}
	return s
}

// step reports a core's decisions and the changes of the core's log.
func (t *teller) step(r *Record) {
	for _, event := range r.events {
		if kind, text := tell(event, r); kind <= tellsCommit && text != "" {
			t.repeat(r, kind, text)
		} else if text != "" {
			t.say(r, kind, text)
		}
	}
	before := t.seen[r.Node]
	if before.Last == nil {
		before = *r
	}
	if *r.Last != *before.Last && r.Last[0] > 0 {
		first := min(raft.Index(before.Last[0])+1, raft.Index(r.Last[0]))
		t.extendSpan(r, tellsEntries, first, raft.Index(r.Last[0]), raft.Term(r.Last[1]))
	}
	if r.Commit > before.Commit {
		t.extendSpan(r, tellsCommit, before.Commit+1, r.Commit, r.Term)
	}
}

// repeat reports a repeated event once, and then counts its repetitions.
func (t *teller) repeat(r *Record, kind sentenceKind, text string) {
	open := t.opened(r.Node)
	s := open[kind]
	if s == nil {
		open[kind] = t.say(r, kind, text)
		return
	}
	s.more++
}

func (t *teller) opened(node string) *[sentenceKinds]*sentence {
	if t.open[node] == nil {
		t.open[node] = &[sentenceKinds]*sentence{}
	}
	return t.open[node]
}

// extendSpan reports a span of entries. If the previous sentence is about the same kind of span, it extends that sentence.
func (t *teller) extendSpan(r *Record, kind sentenceKind, first, last raft.Index, term raft.Term) {
	open := t.opened(r.Node)
	s := open[kind]
	if s == nil || s.term != term || s.last+1 != first || r.Time-s.until > episode {
		s = t.say(r, kind, "")
		s.first, s.term = first, term
		open[kind] = s
	}
	s.last, s.until = last, r.Time
	span := fmt.Sprint(s.first)
	if s.last > s.first {
		span = fmt.Sprintf("%d to %d", s.first, s.last)
	}
	if s.text = "appends " + span + fmt.Sprintf(" of term %d", term); kind == tellsCommit {
		s.text = "commits " + span
	}
}

// tell returns a sentence about a decision, or "" if the decision matters too little.
func tell(n raft.TraceEvent, r *Record) (kind sentenceKind, text string) {
	switch n.Kind {
	case raft.TracePreCampaign:
		return tellsTimeout, fmt.Sprintf("hears no leader, and asks whether it may stand for term %d", n.Term+1)
	case raft.TraceTimeoutNow:
		return tellsCampaign, fmt.Sprintf("is told by %s to take over leadership", n.Peer)
	case raft.TraceCampaign:
		return tellsCampaign, fmt.Sprintf("stands for term %d, its log ends at %d@%d", n.Term, r.Last[0], r.Last[1])
	case raft.TraceLeader:
		return tellsLeader, fmt.Sprintf("is elected, and leads term %d", n.Term)
	case raft.TraceQuorumLost:
		return tellsQuorumLost, "hears no quorum, and steps down"
	case raft.TraceVoteGranted:
		return tellsVote, fmt.Sprintf("votes for %s in term %d, whose log ends at %v", n.Peer, n.Term, n.ID)
	case raft.TraceVoteDenied:
		return tellsDenial, fmt.Sprintf("denies %s its vote: %v", n.Peer, n.Reason)
	case raft.TracePreVoteDenied:
		return tellsTimeout, fmt.Sprintf("would not vote for %s: %v", n.Peer, n.Reason)
	case raft.TraceConflict:
		return tellsConflict, fmt.Sprintf("has no entry %v: refuses what follows it", n.ID)
	case raft.TraceTruncated:
		return tellsCut, fmt.Sprintf("drops its entries %d to %d: those of the leader differ", n.ID.Index+1, n.Index)
	case raft.TraceTransfer:
		return tellsCampaign, fmt.Sprintf("transfers its leadership to %s", n.Peer)
	case raft.TraceConfigAppended:
		return tellsMembers, fmt.Sprintf("uses the members of entry %v", n.ID)
	case raft.TraceConfigRolledBack:
		return tellsMembers, fmt.Sprintf("goes back to the members of entry %d", n.Index)
	case raft.TraceConfigCommitted:
		return tellsMembers, fmt.Sprintf("knows that the members of entry %d are committed", n.Index)
	case raft.TraceChangeGivenUp:
		return tellsMembers, "gives up the change of members: " + n.Text
	case raft.TraceVotelessTransfer:
		return tellsMembers, fmt.Sprintf("no longer has a vote, and transfers its leadership to %s", n.Peer)
	case raft.TraceRemoved:
		return tellsMembers, fmt.Sprintf("learns that entry %d has removed it", n.Index)
	case raft.TraceBootstrapped:
		return tellsBootstrap, fmt.Sprintf("takes entry 1, by which %s bootstraps the cluster", n.Peer)
	case raft.TraceHeard:
		return tellsBootstrap, fmt.Sprintf("is told by %s of %s, and bootstraps none", n.Peer, n.Text)
	case raft.TraceBootstrapProbe:
		return tellsBootstrap, "probes the members, to bootstrap the cluster"
	}
	return 0, ""
}

// story returns the sentences that fit.
func (t *teller) story(f *Failure) []string {
	if f != nil {
		text, _, _ := strings.Cut(f.Text, "\n")
		t.say(&Record{Time: f.At}, tellsFailure, fmt.Sprintf("%s fails: %s", f.Rule, text))
	}
	told := t.decisive(named(f))
	head := fmt.Sprintf("%s are the members; what decided: %d of %d events",
		strings.Join(t.nodes, " "), len(told), len(t.sentences))
	lines := []string{head}
	for _, s := range told {
		lines = append(lines, s.line())
	}
	return lines
}

func (s *sentence) line() string {
	text := s.text
	if s.node != "" {
		text = s.node + " " + text
	}
	switch {
	case s.more == 1:
		text += " (and once more like this)"
	case s.more > 1:
		text += fmt.Sprintf(" (and %d times more like this)", s.more)
	}
	return fmt.Sprintf("%8.1f ms  %s", float64(s.at)/1e6, text)
}

// decisive returns the sentences with the highest weights, in order of time.
func (t *teller) decisive(names subject) []*sentence {
	order := make([]int, len(t.sentences))
	weight := make([]int, len(t.sentences))
	for i, s := range t.sentences {
		order[i] = i
		weight[i] = weights[s.kind] + lateWeight*i/len(t.sentences)
		if names.about(s) {
			weight[i] += namedWeight
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weight[b], weight[a]) })
	order = order[:min(len(order), storyMax-1)]
	slices.Sort(order)
	var told []*sentence
	for _, i := range order {
		told = append(told, t.sentences[i])
	}
	return told
}

// subject is what a failure concerns.
type subject struct {
	terms   []raft.Term
	entries []raft.Index
}

var (
	namedTerm  = regexp.MustCompile(`\bterm (\d+)`)
	namedEntry = regexp.MustCompile(`\b(\d+)@(\d+)`)
)

func named(f *Failure) (s subject) {
	if f == nil {
		return s
	}
	for _, found := range namedTerm.FindAllStringSubmatch(f.Text, -1) {
		s.terms = append(s.terms, raft.Term(number(found[1])))
	}
	for _, found := range namedEntry.FindAllStringSubmatch(f.Text, -1) {
		s.entries = append(s.entries, raft.Index(number(found[1])))
		s.terms = append(s.terms, raft.Term(number(found[2])))
	}
	return s
}

func number(digits string) uint64 {
	n, _ := strconv.ParseUint(digits, 10, 64) // only digits; a number that is too large is not one of ours
	return n
}

// about reports whether a sentence is about the subject of the failure.
func (n subject) about(s *sentence) bool {
	for _, i := range n.entries {
		if s.first <= i && i <= s.last {
			return true
		}
	}
	return slices.Contains(n.terms, s.term)
}
