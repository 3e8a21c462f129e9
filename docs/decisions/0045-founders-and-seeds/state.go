package main

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

const slots = 4 // ids 1 to 4

// params is one run: who is a founder, who has which seeds, what may fail, and which rule is broken.
type params struct {
	n, wipes, lies, maxLog, maxVer int
	lists, alt, seeds              [slots]uint8 // masks of ids; lists[i] == 0: i names no founders
	expect                         int          // a bare number of members in place of the lists
	broken                         string
}

var p params

func broken(rule string) bool { return p.broken == rule }

// config maps each id to an incarnation, or to absent. A value from foreign on means that another member answered for this id.
type config [slots]int8

const (
	absent  = -1
	foreign = 64
)

// history is a cluster's log: entry 1, then one configuration for each change. The cluster id tells who wrote entry 1:
// id, incarnation, and how often it had been redone.
type history struct {
	cluster uint8
	configs []config
	parent  uint16
}

var (
	logs     = []history{{}}
	logIndex = map[string]uint16{}
)

func resetLogs() { logs, logIndex = []history{{}}, map[string]uint16{} }

func extend(log uint16, cluster uint8, c config) uint16 {
	key := fmt.Sprint(log, cluster, c)
	if at, ok := logIndex[key]; ok {
		return at
	}
	logs = append(logs, history{cluster, append(slices.Clone(logs[log].configs), c), log})
	logIndex[key] = uint16(len(logs) - 1)
	return logIndex[key]
}

func length(log uint16) int      { return len(logs[log].configs) }
func clusterOf(log uint16) uint8 { return logs[log].cluster }
func entry1(log uint16) config   { return logs[log].configs[0] }
func configOf(log uint16) config { return logs[log].configs[length(log)-1] }
func newCluster(i int, inc, ver uint8) uint8 {
	return uint8(i)*64 + inc*8 + ver + 1
}
func writer(cluster uint8) (id int, inc, ver uint8) {
	cluster--
	return int(cluster / 64), cluster % 64 / 8, cluster % 8
}

func isPrefix(a, b uint16) bool {
	for length(b) > length(a) {
		b = logs[b].parent
	}
	return a == b
}

const (
	active  = 1 << iota // a term above 0
	asked               // this run has asked each seed once
	heard               // this run has heard of a cluster: it never bootstraps
	redoing             // holds its own entry 1 at term 0 and probes again
	another             // runs with its other list of founders
)

type member struct {
	inc, flags uint8
	log        uint16
	acks       uint8 // bootstrapper: who holds its present entry 1
	warned     uint8 // what to judge by, unknown to the rules: living members of a cluster that this run could hear, or heard
}

// message waits for ever: it may be lost, late, or come to a later incarnation, which takes none of it.
//
//	A  "uninitialized", from (id, inc) to the bootstrapper id; bad: it should not have said so
//	H  entry 1 of log to everyone it names; bad == 1: its bootstrapper has campaigned
//	E  the log of a cluster to the joining (id, inc)
type message struct {
	kind, to, id, inc, bad uint8
	log                    uint16
}

type state struct {
	m                 [slots]member
	committed         [3]uint16 // the longest log of each cluster that had a leader with a quorum
	wipes, lies, lost uint8     // lost: a committed configuration has lost its majority
	msgs              []message
	faults            []string // violations of this step; not part of the state
}

func (s *state) encode(b []byte) []byte {
	b = b[:0]
	for i := range p.n {
		m := &s.m[i]
		b = append(b, m.inc, m.flags, byte(m.log), byte(m.log>>8), m.acks, m.warned)
	}
	for _, l := range s.committed {
		b = append(b, byte(l), byte(l>>8))
	}
	b = append(b, s.wipes, s.lies, s.lost)
	for _, m := range s.msgs {
		b = append(b, m.kind, m.to, m.id, m.inc, m.bad, byte(m.log), byte(m.log>>8))
	}
	return b
}

func decode(b []byte) *state {
	s := &state{}
	u16 := func(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
	for i := range p.n {
		s.m[i] = member{inc: b[0], flags: b[1], log: u16(b[2:]), acks: b[4], warned: b[5]}
		b = b[6:]
	}
	for i := range s.committed {
		s.committed[i], b = u16(b), b[2:]
	}
	s.wipes, s.lies, s.lost, b = b[0], b[1], b[2], b[3:]
	for ; len(b) > 0; b = b[7:] {
		s.msgs = append(s.msgs, message{b[0], b[1], b[2], b[3], b[4], u16(b[5:])})
	}
	return s
}

func (s *state) clone() *state {
	t := *s
	t.msgs, t.faults = slices.Clone(s.msgs), nil
	return &t
}

func compare(a, b message) int {
	return slices.Compare([]int{int(a.kind), int(a.to), int(a.id), int(a.inc), int(a.bad), int(a.log)},
		[]int{int(b.kind), int(b.to), int(b.id), int(b.inc), int(b.bad), int(b.log)})
}

func (s *state) send(m message) {
	if at, ok := slices.BinarySearchFunc(s.msgs, m, compare); !ok {
		s.msgs = slices.Insert(s.msgs, at, m)
	}
}

func (m *member) is(flag uint8) bool { return m.flags&flag != 0 }
func (m *member) blank() bool        { return m.log == 0 }

// owns reports whether member i holds the entry 1 that it wrote itself, and nothing else.
func (s *state) owns(i int) bool { return !s.m[i].blank() && s.holdsOf(i, i) }

// holdsOf reports whether member j holds, at term 0, an entry 1 that the present incarnation of i wrote.
func (s *state) holdsOf(j, i int) bool {
	if s.m[j].blank() || s.m[j].is(active) {
		return false
	}
	id, inc, _ := writer(clusterOf(s.m[j].log))
	return id == i && inc == s.m[i].inc
}

func (s *state) list(i int) uint8 {
	if s.m[i].is(another) {
		return p.alt[i]
	}
	if broken("spare") && p.lists[i]>>i&1 == 0 {
		return 1 << i
	}
	return p.lists[i]
}

func lowest(list uint8) int {
	for i := range slots {
		if list>>i&1 == 1 {
			return i
		}
	}
	return -1
}

// lead returns the lists that member i may bootstrap.
func (s *state) lead(i int) (lists []uint8) {
	if p.expect == 0 {
		if l := s.list(i); lowest(l) == i {
			lists = append(lists, l)
		}
		return lists
	}
	for l := range uint8(1 << p.n) {
		if ones(l) == p.expect && lowest(l) == i {
			lists = append(lists, l)
		}
	}
	return lists
}

func (s *state) founder(i int) bool { return p.expect > 0 || s.list(i)>>i&1 == 1 }

func ones(mask uint8) (k int) {
	for ; mask > 0; mask &= mask - 1 {
		k++
	}
	return k
}

// connected reports whether i and j can know each other's address: through seeds, and because an asked member knows who asks.
func connected(i, j int) bool {
	known := uint8(1 << i)
	for range slots {
		for a := range p.n {
			for b := range p.n {
				if linked := p.seeds[a]>>b&1 == 1; linked && (known>>a|known>>b)&1 == 1 && a != b {
					known |= 1<<a | 1<<b
				}
			}
		}
	}
	return known>>j&1 == 1
}

// lives returns the member that a configuration names under id, and whether its disk still exists.
func (s *state) lives(id int, inc int8) (member int, ok bool) {
	if inc >= foreign {
		k := int(inc-foreign) / 8
		return k, s.m[k].inc == uint8(inc-foreign)%8
	}
	return id, inc >= 0 && s.m[id].inc == uint8(inc)
}

// counts is lives, as the members themselves judge.
func (s *state) counts(id int, inc int8) (member int, ok bool) {
	if broken("noinc") && inc >= 0 {
		return id, true
	}
	return s.lives(id, inc)
}

func (s *state) majority(c config, has func(member int) bool) bool {
	all, yes := 0, 0
	for id, inc := range c {
		if inc == absent {
			continue
		}
		all++
		if k, ok := s.counts(id, inc); ok && has(k) {
			yes++
		}
	}
	return yes > all/2
}

// canLead reports whether a majority that lives would elect member i now.
func (s *state) canLead(i int) bool {
	m := &s.m[i]
	if m.blank() || !m.is(active) {
		return false
	}
	return s.names(configOf(m.log), i) && s.majority(configOf(m.log), func(k int) bool { return s.votes(k, m.log) })
}

func (s *state) names(c config, i int) bool {
	for id, inc := range c {
		if k, ok := s.counts(id, inc); ok && k == i {
			return true
		}
	}
	return false
}

// votes reports whether member k is of log's cluster and has nothing beyond it.
func (s *state) votes(k int, log uint16) bool {
	return !s.m[k].blank() && clusterOf(s.m[k].log) == clusterOf(log) && length(s.m[k].log) <= length(log) && !s.m[k].is(redoing)
}

func name(i int, inc uint8) string { return fmt.Sprint(i+1) + strings.Repeat("'", int(inc)) }
func (s *state) name(i int) string { return name(i, s.m[i].inc) }

func (c config) String() string {
	var names []string
	for id, inc := range c {
		switch {
		case inc >= foreign:
			names = append(names, fmt.Sprintf("%d(in truth %s)", id+1, name(int(inc-foreign)/8, uint8(inc-foreign)%8)))
		case inc >= 0:
			names = append(names, name(id, uint8(inc)))
		}
	}
	return "{" + strings.Join(names, " ") + "}"
}

func clusterName(cluster uint8) string {
	id, inc, ver := writer(cluster)
	return "C(" + name(id, inc) + strings.Repeat("+", int(ver)) + ")"
}

func (s *state) String() string {
	var parts []string
	for i := range p.n {
		m, what := &s.m[i], "uninitialized"
		if !m.blank() {
			what = clusterName(clusterOf(m.log)) + configOf(m.log).String()
			if !m.is(active) {
				what += " term 0"
			}
		}
		for flag, word := range map[uint8]string{heard: " heard", redoing: " redoing"} {
			if m.is(flag) {
				what += word
			}
		}
		parts = append(parts, s.name(i)+": "+what)
	}
	return strings.Join(parts, "; ")
}
