package main

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"
)

// settle judges a new state and drops what can never matter again.
func (s *state) settle() {
	for i := range p.n {
		if s.canLead(i) {
			s.commit(s.m[i].log)
		}
	}
	for _, log := range s.committed {
		if log != 0 && !s.majority(configOf(log), func(int) bool { return true }) {
			s.lost = 1
		}
	}
	for i := range p.n {
		if m := &s.m[i]; m.is(active) || !s.owns(i) {
			m.acks = 0
		}
	}
	s.msgs = slices.DeleteFunc(s.msgs, func(q message) bool {
		switch q.kind {
		case 'A':
			return !s.probing(int(q.to)) && !broken("stale") && !broken("whocounts")
		case 'E':
			return !broken("noinc") && s.m[q.id].inc != q.inc || !s.m[q.id].blank()
		}
		for id, inc := range entry1(q.log) {
			k, ok := s.lives(id, inc)
			if inc != absent && (ok || broken("noinc")) && (s.takes(k, q.log) || s.m[k].log == q.log && !s.m[k].is(active)) {
				return false
			}
		}
		return true
	})
}

// commit notes that a majority would elect a member with this log, so that its entries count as committed.
func (s *state) commit(log uint16) {
	for at, had := range s.committed {
		switch {
		case had == 0:
			s.second(log, s.committed[:at])
			s.committed[at] = log
			return
		case clusterOf(had) != clusterOf(log):
		case isPrefix(had, log):
			s.committed[at] = log
			return
		default:
			if s.lost == 0 && !isPrefix(log, had) {
				s.faults = append(s.faults, "S2: committed entries conflict")
			} else if s.lost == 0 {
				s.faults = append(s.faults, "S2: a leader lacks committed entries")
			}
			return
		}
	}
}

func (s *state) second(log uint16, before []uint16) {
	for id, inc := range entry1(log) {
		if inc >= 0 && inc < foreign && p.expect == 0 && p.alt == [slots]uint8{} && s.list(id) != maskOf(entry1(log)) {
			s.faults = append(s.faults, "S5: a cluster of other founders than a member of it was given")
		}
	}
	for _, other := range before {
		unwiped := false
		for id, inc := range entry1(other) {
			_, ok := s.lives(id, inc)
			unwiped = unwiped || inc != absent && ok
		}
		if lists := maskOf(entry1(log)) != maskOf(entry1(other)); lists && p.alt != [slots]uint8{} {
			s.faults = append(s.faults, "note: two clusters of two founders' lists")
		} else if unwiped {
			s.faults = append(s.faults, "S1: two clusters, and a disk of the first one's entry 1 was never emptied")
		} else {
			s.faults = append(s.faults, "note: two clusters, after all disks of the first one's entry 1 were emptied")
		}
	}
}

func maskOf(c config) (mask uint8) {
	for id, inc := range c {
		if inc != absent {
			mask |= 1 << id
		}
	}
	return mask
}

// good reports whether some cluster can elect a leader now. At the limit of redos, a redo that all would answer counts.
func (s *state) good() bool {
	for i := range p.n {
		if s.canLead(i) {
			return true
		}
		if !s.owns(i) {
			continue
		}
		_, _, ver := writer(clusterOf(s.m[i].log))
		all := int(ver) == p.maxVer
		for j := range p.n {
			if s.list(i)>>j&1 == 1 && j != i {
				all = all && (s.holdsOf(j, i) || s.m[j].blank() && s.sameList(i, j) && connected(i, j) && !s.m[j].is(heard))
			}
		}
		if all {
			return true
		}
	}
	return false
}

// class says why a state never gets a leader again without a fault or a restart.
func (s *state) class() string {
	clusters, orphan, own, told := false, false, false, false
	for i := range p.n {
		m := &s.m[i]
		clusters = clusters || !m.blank() && m.is(active)
		own = own || s.owns(i)
		told = told || m.blank() && m.is(heard)
		if !m.blank() && !m.is(active) {
			id, inc, _ := writer(clusterOf(m.log))
			orphan = orphan || s.m[id].inc != inc
		}
	}
	switch {
	case clusters:
		return "a majority's disks were emptied"
	case orphan:
		return "entry 1 at term 0 of a bootstrapper whose disk was emptied"
	case own && told:
		return "own entry 1 at term 0, and a founder has heard of a cluster"
	case own:
		return "own entry 1 at term 0"
	case told:
		return "all uninitialized, and a founder has heard of a cluster"
	}
	return "all uninitialized"
}

// beside reports whether a member holds an entry 1 at term 0 while another cluster has a leader.
func (s *state) beside() bool {
	for i := range p.n {
		for j := range p.n {
			held := !s.m[j].blank() && !s.m[j].is(active)
			if held && s.canLead(i) && clusterOf(s.m[i].log) != clusterOf(s.m[j].log) {
				return true
			}
		}
	}
	return false
}

type result struct {
	states, edges  int
	complete       bool
	count          map[string]int
	example        map[string][]string
	stuck, restart int // states without a way to a leader: without, and with restarts
}

type search struct {
	seen   map[uint64]uint32
	parent []uint32
	ord    []uint16
	good   []bool
	why    []string
	edges  [2][]uint64 // from<<32 | to: of the rules, and of restarts
	first  []byte
	seed   maphash.Seed
	notes  map[string]uint32
	result result
}

func run(limit int, until time.Duration) *result {
	resetLogs()
	f := &search{seen: map[uint64]uint32{}, seed: maphash.MakeSeed(), notes: map[string]uint32{}}
	f.result = result{complete: true, count: map[string]int{}, example: map[string][]string{}}
	init := &state{}
	for i := range p.n {
		init.start(i)
	}
	f.first = init.encode(nil)
	f.add(f.first, 0, 0, init)
	queue, end := [][]byte{f.first}, time.Now().Add(until)
	for id := 0; id < len(queue); id++ {
		if len(queue) > limit || id%1024 == 0 && time.Now().After(end) {
			f.result.complete = false
			break
		}
		queue = f.visit(uint32(id), queue)
		queue[id] = nil
	}
	f.result.states = len(f.parent)
	if f.result.complete {
		f.liveness()
	}
	for class, id := range f.notes {
		f.result.example[class] = f.path(id)
	}
	return &f.result
}

func (f *search) add(b []byte, from uint32, ord int, s *state) uint32 {
	id := uint32(len(f.parent))
	f.seen[maphash.Bytes(f.seed, b)] = id
	f.parent, f.ord = append(f.parent, from), append(f.ord, uint16(ord))
	f.good, f.why = append(f.good, s.good()), append(f.why, s.class())
	return id
}

func (f *search) visit(id uint32, queue [][]byte) [][]byte {
	ord, buf := 0, []byte(nil)
	decode(queue[id]).steps(func(t *state, kind int, _ string) {
		ord++
		f.result.edges++
		t.settle()
		buf = t.encode(buf)
		to, ok := f.seen[maphash.Bytes(f.seed, buf)]
		if !ok {
			to = f.add(buf, id, ord-1, t)
			queue = append(queue, slices.Clone(buf))
			if t.beside() {
				f.note("note: entry 1 at term 0 held beside a cluster with a leader", to)
			}
			for _, fault := range t.faults {
				f.note(fault, to)
			}
		}
		if kind != fails {
			f.edges[kind] = append(f.edges[kind], uint64(id)<<32|uint64(to))
		}
	})
	return queue
}

func (f *search) note(class string, id uint32) {
	if f.result.count[class]++; f.result.count[class] == 1 {
		f.notes[class] = id
	}
}

// liveness finds the states from which no steps of the rules lead to a leader, and those which even restarts do not help.
func (f *search) liveness() {
	alone := f.reach(f.edges[works])
	helped := f.reach(append(slices.Clone(f.edges[works]), f.edges[restarts]...))
	for id := range f.parent {
		switch {
		case !helped[id]:
			f.result.restart++
			f.note("stuck for good: "+f.why[id], uint32(id))
		case !alone[id]:
			f.result.stuck++
			f.note("stuck until a restart: "+f.why[id], uint32(id))
		}
	}
}

func (f *search) reach(edges []uint64) []bool {
	start := make([]uint32, len(f.parent)+1)
	for _, e := range edges {
		start[uint32(e)+1]++
	}
	for i := range f.parent {
		start[i+1] += start[i]
	}
	at, from := slices.Clone(start), make([]uint32, len(edges))
	for _, e := range edges {
		from[at[uint32(e)]] = uint32(e >> 32)
		at[uint32(e)]++
	}
	found, queue := make([]bool, len(f.parent)), []uint32(nil)
	for id, good := range f.good {
		if good {
			found[id], queue = true, append(queue, uint32(id))
		}
	}
	for len(queue) > 0 {
		id := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, before := range from[start[id]:start[id+1]] {
			if !found[before] {
				found[before], queue = true, append(queue, before)
			}
		}
	}
	return found
}

// path plays the shortest way to a state again.
func (f *search) path(id uint32) (lines []string) {
	var ids []uint32
	for ; id != 0; id = f.parent[id] {
		ids = append(ids, id)
	}
	slices.Reverse(ids)
	s := decode(f.first)
	for k, id := range ids {
		ord, next := 0, s
		s.steps(func(t *state, _ int, label string) {
			if ord == int(f.ord[id]) {
				t.settle()
				next, lines = t, append(lines, fmt.Sprintf("%d. %s", k+1, label))
			}
			ord++
		})
		s = next
	}
	return append(lines, "=> "+s.String())
}

func (r *result) worst() string {
	for _, prefix := range []string{"S1", "S2", "S4", "S5"} {
		for class := range r.count {
			if strings.HasPrefix(class, prefix) {
				return class
			}
		}
	}
	return ""
}
