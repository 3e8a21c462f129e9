package raft

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// verbs are the words of the scenarios; see TestScenarios for their meanings.
var verbs = map[string]func(s *scenario, a scenarioArgs){
	"members": func(s *scenario, a scenarioArgs) {
		s.begin(a.number(a.word(0), 3), a.value("entries", 0), a.word(1) == "successors")
	},
	"disk": func(s *scenario, a scenarioArgs) { s.prepare(a) },
	"start": func(_ *scenario, a scenarioArgs) {
		for _, m := range a.members() {
			m.start()
		}
	},
	"bootstrap": func(s *scenario, _ scenarioArgs) {
		s.w.startAll()
		s.run(100 * time.Millisecond)
		require.EqualValues(s.t, "1", s.w.leader().id)
	},
	"crash": func(_ *scenario, a scenarioArgs) { a.member(0).queue, a.member(0).core = nil, nil },
	"tear":  func(_ *scenario, a scenarioArgs) { a.member(0).tear() },

	"timeout": func(_ *scenario, a scenarioArgs) { a.member(0).timeout() },
	"pass":    func(s *scenario, a scenarioArgs) { s.w.now += Time(a.duration()) },
	"run":     func(s *scenario, a scenarioArgs) { s.run(a.duration()) },
	"settle": func(s *scenario, a scenarioArgs) {
		s.verbose = a.word(0) == "messages"
		s.settle()
		s.verbose = false
	},

	"cut":     func(s *scenario, a scenarioArgs) { s.cut(a) },
	"heal":    func(s *scenario, _ scenarioArgs) { clear(s.w.cut) },
	"deliver": func(s *scenario, a scenarioArgs) { s.deliverOne(a.way()) },
	"hold":    func(s *scenario, a scenarioArgs) { s.holding = append(s.holding, a.way()); s.setAside() },
	"free": func(s *scenario, _ scenarioArgs) {
		s.w.wire, s.held, s.holding = append(s.w.wire, s.held...), nil, nil
	},
	"drop": func(s *scenario, a scenarioArgs) {
		before := len(s.w.wire) + len(s.held)
		lost := func(m Message) bool { return matches(m, a.way()) }
		s.w.wire, s.held = slices.DeleteFunc(s.w.wire, lost), slices.DeleteFunc(s.held, lost)
		require.Less(s.t, len(s.w.wire)+len(s.held), before, "nothing to drop")
	},
	"slow":    func(s *scenario, a scenarioArgs) { s.slow[a.member(0).id] = true },
	"fast":    func(s *scenario, a scenarioArgs) { s.slow[a.member(0).id] = false },
	"persist": func(_ *scenario, a scenarioArgs) { a.member(0).persist(a.number(a.word(1), 1000)) },

	"propose": func(_ *scenario, a scenarioArgs) {
		for range a.number(a.word(2), 1) {
			a.member(0).propose(a.word(1))
		}
	},
	"read":      func(_ *scenario, a scenarioArgs) { a.member(0).read() },
	"peer-lost": func(_ *scenario, a scenarioArgs) { a.member(0).step(PeerLost{Peer: a.member(1).peer()}) },

	"spare":  func(s *scenario, a scenarioArgs) { s.w.spare(NodeID(a.word(0))).start() },
	"change": func(_ *scenario, a scenarioArgs) { a.member(0).change(a.change()) },

	"show-config":   func(s *scenario, _ scenarioArgs) { s.showConfig() },
	"show-logs":     func(s *scenario, _ scenarioArgs) { s.showLogs() },
	"show-state":    func(s *scenario, _ scenarioArgs) { s.showState() },
	"show-progress": func(s *scenario, a scenarioArgs) { s.showProgress(a.member(0)) },
	"show-wire": func(s *scenario, _ scenarioArgs) {
		for _, m := range append(slices.Clone(s.w.wire), s.held...) {
			s.print("%s -> %s: %s", m.From.ID, m.To.ID, messageSentence(m))
		}
	},
	"mute":   func(s *scenario, _ scenarioArgs) { s.muted = true },
	"unmute": func(s *scenario, _ scenarioArgs) { s.muted = false },
}

// begin creates the world. Every file has the same seed.
func (s *scenario) begin(n, entries int, successors bool) {
	clear(s.slow)
	s.held, s.holding = nil, nil
	s.w = newWorld(s.t, 1, []NodeID{"1", "2", "3", "4", "5", "6", "7"}[:n]...)
	s.w.trace = s.took
	s.w.tweak = func(c *CoreConfig) {
		c.InflightMax, c.Preferences.NoSuccessors = 4, !successors
		if entries == 1 {
			c.AppendBytesMax = 1
		}
	}
}

// change returns the change that the words after a member request.
func (a scenarioArgs) change() (ch Change) {
	member := func(id string, kind MemberKind) Member {
		return Member{ID: NodeID(id), Address: id + ":1", Kind: kind, Incarnation: a.s.w.members[NodeID(id)].disk.incarnation}
	}
	for _, arg := range a.args[1:] {
		ch.Cancel = ch.Cancel || arg.Key == "cancel"
		for _, id := range arg.Vals {
			peer := Peer{ID: NodeID(id)}
			switch arg.Key {
			case "add":
				ch.Add = append(ch.Add, member(id, Voter))
			case "learner":
				ch.Add = append(ch.Add, member(id, Learner))
			case "promote":
				ch.Promote = append(ch.Promote, peer)
			case "demote":
				ch.Demote = append(ch.Demote, peer)
			case "remove":
				ch.Remove = append(ch.Remove, peer)
			}
		}
	}
	return ch
}

// showConfig prints each member's configuration.
func (s *scenario) showConfig() {
	for _, id := range s.w.order {
		m := s.w.members[id]
		if m.core == nil {
			continue
		}
		st := m.core.Status()
		line := fmt.Sprintf("entry %d:", st.ConfigIndex)
		if st.Config.Joint() {
			line += " " + idList(peerIDs(st.Config.Outgoing)) + " and"
		}
		line += " " + idList(peerIDs(st.Config.voterPeers()))
		for _, o := range st.Config.Members {
			if o.Kind == Learner {
				line += fmt.Sprintf(", learner %s", o.ID)
			}
			if o.Next != NextSame {
				line += fmt.Sprintf(", %s will be %v", o.ID, o.Next)
			}
		}
		if st.ConfigCommitted < st.ConfigIndex {
			line += "; not committed"
		}
		s.print("%s  %s", id, line)
	}
}

// prepare writes a disk. Its entry 1 bootstraps the cluster, and its other entries have the terms of the log.
func (s *scenario) prepare(a scenarioArgs) {
	m := a.member(0)
	m.disk.hard = HardState{Term: Term(a.value("term", 0))}
	if vote := a.value("vote", 0); vote > 0 {
		m.disk.hard.Vote = s.w.members[s.w.order[vote-1]].peer()
	}
	var terms []Term
	for _, term := range a.values("log") {
		terms = append(terms, Term(a.number(term, 0)))
	}
	m.disk.log = s.entriesOf(terms)
}

// entriesOf returns a log whose entry 1 bootstraps the cluster, and whose other entries have these terms.
func (s *scenario) entriesOf(terms []Term) []Entry {
	bootstrapper := s.w.members[s.w.order[0]]
	f := Bootstrap{Cluster: ClusterID{1}, Bootstrapper: bootstrapper.peer(), Probe: RPCID{1, 1}}
	for _, id := range s.w.order {
		f.Configuration.Members = append(f.Configuration.Members, Member{
			ID: id, Address: string(id) + ":1", Incarnation: s.w.members[id].disk.incarnation,
		})
	}
	log := []Entry{{Index: 1, Kind: EntryBootstrap, Data: f.Encode()}}
	for _, term := range terms {
		log = append(log, Entry{Index: Index(len(log) + 1), Term: term, Kind: EntryCommand, Data: []byte{byte(term)}})
	}
	return log
}

func (m *member) peer() Peer { return Peer{m.id, m.disk.incarnation} }

// tear crashes the member so that only the term and vote of its next write are durable.
func (m *member) tear() {
	m.disk.write(m.queue[0], 0)
	m.queue, m.core = nil, nil
}

func (s *scenario) cut(a scenarioArgs) {
	if from, to, oneWay := strings.Cut(a.word(0), "->"); oneWay {
		s.w.cut[[2]NodeID{NodeID(from), NodeID(to)}] = true
		return
	}
	others := a.members()[1:]
	if len(others) == 0 {
		for _, id := range s.w.order {
			others = append(others, s.w.members[id])
		}
	}
	for _, m := range others {
		one := a.member(0).id
		s.w.cut[[2]NodeID{one, m.id}], s.w.cut[[2]NodeID{m.id, one}] = true, true
	}
}

func (s *scenario) deliverOne(way [3]string) {
	for _, list := range []*[]Message{&s.w.wire, &s.held} {
		for i, m := range *list {
			if !matches(m, way) {
				continue
			}
			*list = slices.Delete(*list, i, i+1)
			s.w.wire = append(s.w.wire, m)
			s.verbose = true
			s.deliver(len(s.w.wire) - 1)
			s.verbose = false
			return
		}
	}
	require.Fail(s.t, "no such message is on its way", "%v", way)
}

// showLogs prints the terms of every log in memory, and how far it is durable and committed.
func (s *scenario) showLogs() {
	for _, id := range s.w.order {
		m := s.w.members[id]
		log, tail := m.tail, ""
		if m.core == nil {
			log, tail = m.disk.log, "  crashed"
		}
		var terms []string
		for _, e := range log {
			terms = append(terms, e.ID().String()[strings.Index(e.ID().String(), "@")+1:])
		}
		if m.core != nil {
			st := m.core.Status()
			if st.Persisted < st.Last.Index {
				tail += "  durable " + itoa(st.Persisted)
			}
			tail += "  commit " + itoa(st.Commit)
		}
		s.print("%s  %s%s", id, strings.Join(terms, " "), tail)
	}
}

func itoa(i Index) string { return strings.TrimSuffix(EntryID{Index: i}.String(), "@0") }

func (s *scenario) showState() {
	for _, id := range s.w.order {
		m := s.w.members[id]
		if m.core == nil {
			s.print("%s  crashed; on its disk: term %d, vote for %q", id, m.disk.hard.Term, m.disk.hard.Vote.ID)
			continue
		}
		st := m.core.Status()
		line := st.Role.String()
		if st.Leader != "" && st.Leader != id {
			line += " of " + string(st.Leader)
		}
		if st.Uninitialized {
			line = "uninitialized"
		}
		s.print("%s  %s, term %d, log up to %v, commit %d", id, line, st.Term, st.Last, st.Commit)
		for _, missing := range st.Missing {
			s.print("   waits: %s", missing)
		}
	}
}

func (s *scenario) showProgress(m *member) {
	for _, p := range m.core.Status().Peers {
		s.print("%s  %s, match %d, next %d, %d in flight", p.ID, p.State, p.Match, p.Next, p.Inflight)
	}
}
