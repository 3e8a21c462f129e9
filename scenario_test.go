package raft

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// TestScenarios plays the files of testdata/scenarios. Each begins with what its reader will learn, and shows
// what the members decide: the virtual time in milliseconds, the member, and the reason.
//
//	go test -run TestScenarios -rewrite .
//
// rewrites the output: read the diff. The verbs:
//
//	members 3 [entries=1]            the members 1 to 3, with empty disks, not started; entries=1: appends
//	                                 carry one entry each; successors: leaders name their successors
//	disk 2 term=3 vote=1 log=(1,1,3) content of a disk: from index 2 on, one entry for each term
//	start [2]  crash 2               a crash loses the pending writes
//	tear 2                           the term and vote of its next write become durable, and it crashes
//	bootstrap                        start all; let them bootstrap the cluster and elect 1
//	timeout 2                        its election timeout passes now
//	pass 200ms                       time passes, and nobody's timer fires
//	run 500ms                        time passes, and everything happens that is due
//	cut 1 [2]  cut 1->2  heal        both ways, or one way; without a second member: from all
//	settle  settle messages          deliver and persist until nothing is left; show the delivered messages
//	deliver 1->2 [append]            one message, or the first of this kind
//	hold 1->2 [append]  free         keep messages in transit; let them go
//	drop 1->2 [append]               lose such messages
//	slow 2  fast 2  persist 2 [1]    its disk makes writes durable only on request
//	propose 1 x [4]  read 2
//	peer-lost 1 2                    the transport reports to 1 the loss of 2
//	spare 4                          a member with an empty disk starts, and is to be added
//	change 1 add=4 remove=(2,3)      request a change from 1: add, learner, promote, demote, remove, cancel
//	show-config                      the voters and the other members, for each member
//	show-logs  show-state  show-progress 1  show-wire  mute  unmute
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			s := &scenario{t: t, slow: map[NodeID]bool{}}
			lines := 0
			datadriven.RunTest(t, file, func(_ *testing.T, d *datadriven.TestData) string {
				s.play(d.Cmd, d.CmdArgs)
				for _, line := range strings.Split(d.Input, "\n") {
					cmd, args, err := datadriven.ParseLine(line)
					require.NoError(t, err)
					s.play(cmd, args)
				}
				out := s.flush()
				lines += strings.Count(out, "\n")
				return out
			})
			require.LessOrEqual(t, lines, 60, "a scenario is short enough to be read")
			for _, m := range s.w.members {
				if m.core != nil {
					m.core.checkState()
				}
			}
		})
	}
}

// scenario is a world that a file drives.
type scenario struct {
	t       *testing.T
	w       *world
	slow    map[NodeID]bool
	held    []Message
	holding [][3]string // from, to, kind
	out     strings.Builder
	speaker string // member and time of the last line
	muted   bool
	verbose bool
}

func (s *scenario) play(cmd string, args []datadriven.CmdArg) {
	if cmd == "" {
		return
	}
	verb, ok := verbs[cmd]
	require.True(s.t, ok, "no verb %q", cmd)
	require.True(s.t, s.w != nil || cmd == "members" || cmd == "mute", "a scenario begins with its members")
	verb(s, scenarioArgs{s, args})
}

func (s *scenario) flush() string {
	defer s.out.Reset()
	s.speaker = ""
	return s.out.String()
}

// say writes one line of a member.
func (s *scenario) say(id NodeID, format string, args ...any) {
	if s.muted {
		return
	}
	speaker := fmt.Sprintf("[%4d] %s", s.w.now/Time(time.Millisecond), id)
	if speaker == s.speaker {
		speaker = strings.Repeat(" ", len(speaker))
	} else {
		s.speaker = speaker
	}
	fmt.Fprintf(&s.out, "%s  %s\n", speaker, fmt.Sprintf(format, args...))
}

func (s *scenario) print(format string, args ...any) {
	if !s.muted {
		fmt.Fprintf(&s.out, format+"\n", args...)
		s.speaker = ""
	}
}

// took shows the decisions of a member.
func (s *scenario) took(id NodeID, out Output) {
	for _, n := range out.Trace {
		s.say(id, "%s", n)
	}
	if out.Apply.Index > 0 {
		s.say(id, "apply up to %v", out.Apply)
	}
	for _, a := range out.Answers {
		s.say(id, "answer %d: %s", a.RequestID, answerSentence(a))
	}
}

func answerSentence(a Answer) string {
	switch a.Kind {
	case AnswerAccepted:
		return fmt.Sprintf("accepted as %v", a.ID)
	case AnswerNotApplied:
		return fmt.Sprintf("%v was cut off and is not applied", a.ID)
	case AnswerUnknown:
		return fmt.Sprintf("the outcome of %v is unknown", a.ID)
	case AnswerReadSafe:
		return fmt.Sprintf("read at %d", a.ID.Index)
	case AnswerTransferred:
		return fmt.Sprintf("%s leads now", a.Leader)
	case AnswerChanged:
		return fmt.Sprintf("changed by %v", a.ID)
	}
	if a.Err != nil {
		return a.Err.Error()
	}
	why := map[RefusalKind]string{
		RefusedNotLeader: "not the leader", RefusedTransferring: "transferring the leadership", RefusedOverloaded: "overloaded",
		RefusedClosing: "closing", RefusedNoTarget: "no such target", RefusedTimedOut: "not in time", RefusedTooLarge: "too large",
		RefusedStalled: "the disk has stalled",
	}[a.Refusal]
	if a.Leader == "" {
		return "refused, " + why
	}
	return fmt.Sprintf("refused, %s; ask %s", why, a.Leader)
}

// messageSentence returns a message as a sentence.
func messageSentence(m Message) string {
	switch b := m.Body.(type) {
	case BootstrapProbe:
		return "who are you? " + listSentence(b.List)
	case BootstrapProbeReply:
		return "I am " + b.Result.String()
	case BootstrapRequest:
		return "hold entry 1"
	case BootstrapReply:
		return "I hold entry 1"
	case PreVoteRequest:
		return fmt.Sprintf("would you vote for me in term %d? my log ends at %v", m.Term+1, b.Last)
	case PreVoteReply:
		return yesOrNo(b.Granted, "I would")
	case VoteRequest:
		return fmt.Sprintf("vote for me in term %d, my log ends at %v", m.Term, b.Last)
	case VoteReply:
		return yesOrNo(b.Granted, fmt.Sprintf("my vote in term %d", m.Term))
	case AppendRequest:
		if b.Last == b.Prev {
			return fmt.Sprintf("append nothing behind %v, commit %d", b.Prev, b.Commit)
		}
		return fmt.Sprintf("append up to %v behind %v, commit %d", b.Last, b.Prev, b.Commit)
	case AppendReply:
		return fmt.Sprintf("I hold up to %d", b.Match)
	case AppendConflict:
		return fmt.Sprintf("not behind %d: we agree up to %v at most", b.Prev, b.Hint)
	case Heartbeat:
		return fmt.Sprintf("I lead term %d, commit %d", m.Term, b.Commit)
	case HeartbeatReply:
		return fmt.Sprintf("I hear you, and hold up to %d", b.Match)
	case ReadRequest:
		return "at which index may I read?"
	case ReadReply:
		return yesOrNo(b.OK, fmt.Sprintf("read at %d", b.Index))
	}
	return "campaign now"
}

func yesOrNo(yes bool, what string) string {
	if yes {
		return "yes: " + what
	}
	return "no"
}

func listSentence(c Configuration) string {
	var ids []string
	for _, m := range c.Members {
		ids = append(ids, string(m.ID))
	}
	return "my list is " + strings.Join(ids, ", ")
}

// kindOf returns the word for a message in deliver, hold and drop.
func kindOf(m Message) string {
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", m.Body), "raft."))
}

func matches(m Message, pattern [3]string) bool {
	return string(m.From.ID) == pattern[0] && string(m.To.ID) == pattern[1] &&
		(pattern[2] == "" || strings.HasPrefix(kindOf(m), pattern[2]))
}

// setAside takes the held messages off the wire.
func (s *scenario) setAside() {
	s.w.wire = slices.DeleteFunc(s.w.wire, func(m Message) bool {
		for _, pattern := range s.holding {
			if matches(m, pattern) {
				s.held = append(s.held, m)
				return true
			}
		}
		return false
	})
}

func (s *scenario) deliver(i int) {
	m := s.w.wire[i]
	lost := s.w.cut[[2]NodeID{m.From.ID, m.To.ID}] || s.w.members[m.To.ID].core == nil
	if s.verbose && !lost {
		s.say(m.To.ID, "<- %s: %s", m.From.ID, messageSentence(m))
	}
	s.w.deliver(i)
}

// settle delivers messages and persists writes until nothing is left to do, except for held messages and slow disks.
func (s *scenario) settle() {
	for range 100000 {
		s.setAside()
		if len(s.w.wire) > 0 {
			s.deliver(0)
			continue
		}
		busy := false
		for _, id := range s.w.order {
			if m := s.w.members[id]; len(m.queue) > 0 && m.core != nil && !s.slow[id] {
				m.persist(len(m.queue))
				busy = true
			}
		}
		if !busy {
			return
		}
	}
	require.Fail(s.t, "the cluster does not settle")
}

// run lets time pass. Everything that becomes due happens.
func (s *scenario) run(d time.Duration) {
	for end := s.w.now + Time(d); ; {
		s.settle()
		next := end
		for _, m := range s.w.members {
			if m.core != nil {
				next = min(next, max(m.wakeAt, s.w.now))
			}
		}
		s.w.now = next
		if next == end {
			return
		}
		for _, id := range s.w.order {
			if m := s.w.members[id]; m.core != nil && m.wakeAt <= s.w.now {
				m.step()
			}
		}
	}
}

// timeout lets the election timeout of a member pass.
func (m *member) timeout() {
	m.core.follower.deadline, m.core.step.wakeAt = m.w.now, m.w.now
	m.step()
}

// scenarioArgs reads the words after a verb.
type scenarioArgs struct {
	s    *scenario
	args []datadriven.CmdArg
}

func (a scenarioArgs) word(i int) string {
	if i >= len(a.args) {
		return ""
	}
	return a.args[i].Key
}

// member returns the member that the i-th word names.
func (a scenarioArgs) member(i int) *member {
	m := a.s.w.members[NodeID(a.word(i))]
	require.NotNil(a.s.t, m, "no member %q", a.word(i))
	return m
}

// members returns the named members, or all.
func (a scenarioArgs) members() []*member {
	var list []*member
	for i := range a.args {
		list = append(list, a.member(i))
	}
	if len(list) == 0 {
		for _, id := range a.s.w.order {
			list = append(list, a.s.w.members[id])
		}
	}
	return list
}

// way reads "1->2" and a kind of message.
func (a scenarioArgs) way() [3]string {
	from, to, ok := strings.Cut(a.word(0), "->")
	require.True(a.s.t, ok, "a way is 1->2")
	return [3]string{from, to, a.word(1)}
}

func (a scenarioArgs) duration() time.Duration {
	d, err := time.ParseDuration(a.word(0))
	require.NoError(a.s.t, err)
	return d
}

func (a scenarioArgs) number(word string, otherwise int) int {
	if word == "" {
		return otherwise
	}
	n, err := strconv.Atoi(word)
	require.NoError(a.s.t, err)
	return n
}

// values reads key=(…) or key=….
func (a scenarioArgs) values(key string) []string {
	for _, arg := range a.args {
		if arg.Key == key {
			return arg.Vals
		}
	}
	return nil
}

func (a scenarioArgs) value(key string, otherwise int) int {
	if values := a.values(key); len(values) == 1 {
		return a.number(values[0], otherwise)
	}
	return otherwise
}
