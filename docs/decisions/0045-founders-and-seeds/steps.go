package main

import (
	"fmt"
	"slices"
)

// The kinds of a step: the rules at work, a restart of a process, and what fails.
const (
	works = iota
	restarts
	fails
)

type emit func(t *state, kind int, label string)

// steps calls out with each state that may follow.
func (s *state) steps(out emit) {
	for i := range p.n {
		s.fail(i, out)
		s.ask(i, out)
		s.answer(i, out)
		s.write(i, out)
		s.hold(i, out)
		s.begin(i, out)
		if s.canLead(i) {
			s.invite(i, out)
			s.change(i, out)
		}
	}
}

// start makes member i a new run: what it has heard is forgotten, and answers to its earlier probe no longer count.
func (s *state) start(i int) {
	m := &s.m[i]
	m.flags &= another | active
	m.warned = 0
	if m.blank() && s.founder(i) {
		for x := range p.n {
			if p.seeds[i]>>x&1 == 1 && x != i && s.m[x].is(active) {
				m.warned |= 1 << x
			}
		}
	}
	s.dropAnswers(i)
}

func (s *state) dropAnswers(i int) {
	if broken("stale") || broken("whocounts") {
		return
	}
	s.msgs = slices.DeleteFunc(s.msgs, func(m message) bool { return m.kind == 'A' && int(m.to) == i })
}

func (s *state) fail(i int, out emit) {
	m := &s.m[i]
	if int(s.wipes) < p.wipes {
		t := s.clone()
		t.wipes++
		t.m[i] = member{inc: m.inc + 1, flags: m.flags & another}
		for j := range p.n {
			t.m[j].warned &^= 1 << i
		}
		t.start(i)
		out(t, fails, fmt.Sprintf("the disk of %s is emptied, it comes back as %s", s.name(i), t.name(i)))
	}
	if p.alt[i] != 0 && !m.is(another) {
		t := s.clone()
		t.m[i].flags |= another
		t.start(i)
		out(t, fails, s.name(i)+" restarts with its other list")
	}
	if m.blank() && s.founder(i) && m.is(asked|heard) {
		t := s.clone()
		t.start(i)
		t.askSeeds(i)
		if broken("durable") {
			t.m[i].flags |= m.flags & heard
		}
		out(t, restarts, s.name(i)+" restarts and asks its seeds")
	}
	if m.blank() && s.founder(i) && !m.is(heard) && int(s.lies) < p.lies {
		t := s.clone()
		t.lies++
		t.hear(i)
		out(t, fails, s.name(i)+" is told of a cluster that does not exist, or no longer")
	}
}

// hear: from now on, this run of member i never bootstraps.
func (s *state) hear(i int) {
	s.m[i].flags |= heard
	if len(s.lead(i)) > 0 {
		s.dropAnswers(i)
	}
}

// ask is Who: first each seed once, then any member whose address i knows, at any time. It changes nothing in the asked member.
func (s *state) ask(i int, out emit) {
	m := &s.m[i]
	if !m.blank() || !s.founder(i) {
		return
	}
	if !m.is(asked) {
		t := s.clone()
		t.askSeeds(i)
		out(t, works, s.name(i)+" has asked its seeds")
	}
	for x := range p.n {
		if m.is(heard) || x == i || p.seeds[i]>>x&1 == 0 && !(s.founder(x) && connected(i, x)) {
			continue
		}
		t := s.clone()
		if t.listen(i, x); t.m[i] != *m {
			out(t, works, s.name(i)+" asks "+s.name(x)+" and hears of a cluster")
		}
	}
}

func (s *state) askSeeds(i int) {
	s.m[i].flags |= asked
	for x := range p.n {
		if p.seeds[i]>>x&1 == 1 && x != i {
			s.listen(i, x)
		}
	}
}

// listen takes x's answer to Who. It counts only what x's own store holds, never what x has heard.
func (s *state) listen(i, x int) {
	m := &s.m[x]
	switch {
	case m.is(active):
		s.m[i].warned |= 1 << x
		s.hear(i)
	case m.blank():
		if broken("rumour") && m.is(heard) {
			s.hear(i)
		}
	case s.holdsOf(x, i): // its own entry 1
	case len(s.lead(i)) > 0 && broken("latchheld") || broken("told0"):
		s.hear(i)
	}
}

// probing reports whether member i probes the others: uninitialized and told of nothing, or in a redo.
func (s *state) probing(i int) bool {
	m := &s.m[i]
	if len(s.lead(i)) == 0 {
		return false
	}
	if m.blank() {
		return (m.is(asked) || broken("eager")) && (!m.is(heard) || broken("nolatch"))
	}
	return m.is(redoing)
}

// answer: member j answers the probe of bootstrapper i. A probe may come at any time, also late.
func (s *state) answer(i int, out emit) {
	if !s.probing(i) {
		return
	}
	for j := range p.n {
		if j == i || !connected(i, j) || p.expect == 0 && s.list(i)>>j&1 == 0 && !broken("anyid") {
			continue
		}
		if !s.sameList(i, j) || !s.uninitialized(j, i) {
			continue
		}
		bad := uint8(0)
		if s.m[j].blank() && s.m[j].warned != 0 {
			bad = 1
		}
		for id := range p.n { // the id for which the answer is taken
			if id != j && (!broken("anyid") || id == i || s.list(i)>>id&1 == 0) || s.list(i)>>id&1 == 0 && p.expect == 0 {
				continue
			}
			inc := s.m[j].inc
			if id != j {
				inc += foreign + uint8(j)*8
			}
			t := s.clone()
			t.send(message{kind: 'A', to: uint8(i), id: uint8(id), inc: inc, bad: bad})
			if len(t.msgs) > len(s.msgs) {
				out(t, works, fmt.Sprintf("%s answers %s: uninitialized", s.name(j), s.name(i)))
			}
		}
	}
}

func (s *state) sameList(i, j int) bool {
	return p.expect > 0 || broken("anylist") || broken("anyid") && !s.founder(j) || s.list(j) == s.list(i)
}

func (s *state) uninitialized(j, i int) bool {
	m := &s.m[j]
	switch {
	case !m.blank():
		return s.holdsOf(j, i) && s.m[i].is(redoing)
	case broken("whocounts"):
		return true
	case !s.founder(j):
		return broken("anyid")
	}
	return (m.is(asked) || broken("eager")) && (!m.is(heard) || broken("toldanswers"))
}

// write: the bootstrapper has an answer of every founder and writes entry 1.
func (s *state) write(i int, out emit) {
	if !s.probing(i) {
		return
	}
	for _, list := range s.lead(i) {
		c := config{absent, absent, absent, absent}
		c[i] = int8(s.m[i].inc)
		s.choose(i, list, 0, c, s.m[i].blank() && s.m[i].warned != 0, out)
	}
}

func (s *state) choose(i int, list uint8, id int, c config, bad bool, out emit) {
	if id == slots {
		if have := len(slices.DeleteFunc(slices.Clone(c[:]), func(v int8) bool { return v == absent })); have <= ones(list)/2 {
			return
		}
		s.written(i, c, bad, out)
		return
	}
	if list>>id&1 == 0 || id == i {
		s.choose(i, list, id+1, c, bad, out)
		return
	}
	if broken("majority") {
		s.choose(i, list, id+1, c, bad, out)
	}
	for _, m := range s.msgs {
		if m.kind == 'A' && int(m.to) == i && int(m.id) == id {
			c[id] = int8(m.inc)
			s.choose(i, list, id+1, c, bad || m.bad == 1, out)
		}
	}
}

func (s *state) written(i int, c config, bad bool, out emit) {
	t := s.clone()
	m, ver := &t.m[i], uint8(0)
	if !m.blank() {
		_, _, ver = writer(clusterOf(m.log))
		ver++
	}
	m.log, m.flags, m.acks, m.warned = extend(0, newCluster(i, m.inc, ver), c), m.flags&another, 0, 0
	t.dropAnswers(i)
	t.send(message{kind: 'H', log: m.log})
	if bad {
		t.faults = append(t.faults, "S4: founded although a founder could hear of a living cluster")
	}
	out(t, works, fmt.Sprintf("%s has all answers, writes entry 1 of %s %v", s.name(i), clusterName(clusterOf(m.log)), c))
}

// hold delivers what is under way to member j: entry 1, the term of a campaign, or the log of a cluster that it joins.
func (s *state) hold(j int, out emit) {
	m := &s.m[j]
	for _, q := range s.msgs {
		t := s.clone()
		w := &t.m[j]
		switch {
		case q.kind == 'E' && int(q.id) == j && (q.inc == m.inc || broken("noinc")) && m.blank():
			w.log, w.flags, w.warned = q.log, m.flags&another|active, 0
			out(t, works, s.name(j)+" joins "+clusterName(clusterOf(q.log)))
		case q.kind == 'H' && m.log == q.log && !m.is(active) && q.bad == 1:
			w.flags |= active
			out(t, works, s.name(j)+" takes term 1 of "+clusterName(clusterOf(q.log)))
		case q.kind == 'H' && s.takes(j, q.log):
			w.log, w.flags, w.warned = q.log, m.flags&another, 0
			if i, _, _ := writer(clusterOf(q.log)); t.m[i].log == q.log && !t.m[i].is(redoing) {
				t.m[i].acks |= 1 << j
			}
			out(t, works, s.name(j)+" holds entry 1 of "+clusterName(clusterOf(q.log)))
		}
	}
}

func (s *state) takes(j int, log uint16) bool {
	c, m := entry1(log), &s.m[j]
	if !s.names(c, j) && !(broken("noinc") && c[j] != absent) {
		return false
	}
	if m.blank() {
		return !(broken("refusehold") && m.is(heard))
	}
	id, inc, ver := writer(clusterOf(log))
	hid, hinc, hver := writer(clusterOf(m.log))
	return !m.is(active) && id == hid && inc == hinc && ver > hver && id != j
}

// begin: the bootstrapper probes again, or campaigns once all hold entry 1.
func (s *state) begin(i int, out emit) {
	m := &s.m[i]
	if m.blank() {
		return
	}
	if broken("noterm0") && !m.is(active) && !s.owns(i) {
		t := s.clone()
		t.m[i].flags |= active
		out(t, works, s.name(i)+" campaigns without a term")
	}
	id, inc, ver := writer(clusterOf(m.log))
	if id != i || inc != m.inc || length(m.log) > 1 || m.is(redoing) {
		return
	}
	if (!m.is(active) || broken("lateredo")) && int(ver) < p.maxVer && !broken("noredo") {
		t := s.clone()
		t.m[i].flags = m.flags&another | redoing
		t.m[i].acks = 0
		t.dropAnswers(i)
		out(t, works, s.name(i)+" probes again")
	}
	for j, inc := range entry1(m.log) {
		if k, _ := s.lives(j, inc); inc != absent && j != i && m.acks>>k&1 == 0 && !broken("nohold") {
			return
		}
	}
	if !m.is(active) {
		t := s.clone()
		t.m[i].flags |= active
		t.msgs = slices.DeleteFunc(t.msgs, func(q message) bool { return q.kind == 'H' && q.log == m.log })
		t.send(message{kind: 'H', log: m.log, bad: 1})
		out(t, works, s.name(i)+" campaigns in term 1 of "+clusterName(clusterOf(m.log)))
	}
}

// invite: leader i sends its log to a member that has asked to join. That member counts for nothing yet.
func (s *state) invite(i int, out emit) {
	log := s.m[i].log
	for x := range p.n {
		m := &s.m[x]
		if !m.blank() || s.founder(x) && !m.is(heard) {
			continue
		}
		t := s.clone()
		t.send(message{kind: 'E', id: uint8(x), inc: m.inc, log: log})
		if len(t.msgs) > len(s.msgs) {
			out(t, works, fmt.Sprintf("%s, leader of %s, sends its log to %s", s.name(i), clusterName(clusterOf(log)), s.name(x)))
		}
	}
}

// change: leader i adds, replaces or removes a voter, through a majority of both configurations.
func (s *state) change(i int, out emit) {
	log := s.m[i].log
	old := configOf(log)
	if length(log) >= p.maxLog {
		return
	}
	for x := range p.n {
		c, verb := old, "adds"
		switch m := &s.m[x]; {
		case x == i:
			continue
		case old[x] == int8(m.inc): // removes it
			c[x], verb = absent, "removes"
		case !m.is(active) || !s.votes(x, log): // has not got the log
			if old[x] == absent {
				continue
			}
			c[x], verb = absent, "removes"
		default:
			c[x] = int8(m.inc)
		}
		for q := range uint8(1 << p.n) {
			has := func(k int) bool { return q>>k&1 == 1 && s.votes(k, log) }
			useful := true
			for k := range p.n {
				useful = useful && (q>>k&1 == 0 || has(k) && (s.names(old, k) || s.names(c, k)))
			}
			if q>>i&1 == 0 || !useful || !s.majority(old, has) || !s.majority(c, has) {
				continue
			}
			t := s.clone()
			for k := range p.n {
				if q>>k&1 == 1 {
					t.m[k].log, t.m[k].flags, t.m[k].acks = extend(log, clusterOf(log), c), t.m[k].flags&another|active, 0
				}
			}
			out(t, works, fmt.Sprintf("%s, leader of %s, %s %d: %v", s.name(i), clusterName(clusterOf(log)), verb, x+1, c))
		}
	}
}
