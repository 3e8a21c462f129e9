package transport

import (
	"maps"
	"sync"
	"time"
)

// Limits of the questions Who that this member answers. Any host that reaches the port may ask, or with TLS any holder of a
// member's certificate. So a flood of questions must cost less than what the members need. A member that looks for its cluster
// asks a few times per second; without TLS, several members of one host are one source.
const (
	questionsPerSecond = 100 // of one source, with twice as many at once
	questionsOpenMax   = 16  // of one source, at the same time
	questionsOfAll     = 4   // times each of these: the limit of all sources together
)

// questions counts the questions Who, by source.
type questions struct {
	mu  sync.Mutex
	all asker
	of  map[string]*asker // sources that have asked within the last two seconds
}

// asker holds what one source has used of its share.
type asker struct {
	used float64 // questions; falls by the rate
	at   time.Time
	open int
}

// settle forgets what was used long enough ago.
func (a *asker) settle(now time.Time, times float64) {
	a.used = max(0, a.used-now.Sub(a.at).Seconds()*times*questionsPerSecond)
	a.at = now
}

func (a *asker) hasRoom(times float64) bool {
	return a.used+1 <= 2*times*questionsPerSecond && a.open < int(times)*questionsOpenMax
}

// begin takes a share for one question. If there is none left, it returns false. The caller calls end after the answer.
func (q *questions) begin(source string, now time.Time) (end func(), ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all.settle(now, questionsOfAll)
	if !q.all.hasRoom(questionsOfAll) { // before a source is remembered, so that this bounds the map
		return nil, false
	}
	one := q.of[source]
	if one == nil {
		q.forget(now)
		one = &asker{at: now}
		q.of[source] = one
	}
	one.settle(now, 1)
	if !one.hasRoom(1) {
		return nil, false
	}
	for _, a := range []*asker{one, &q.all} {
		a.used++
		a.open++
	}
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		one.open--
		q.all.open--
	}, true
}

// forget drops the sources that have their whole share again.
func (q *questions) forget(now time.Time) {
	maps.DeleteFunc(q.of, func(_ string, a *asker) bool {
		a.settle(now, 1)
		return a.used == 0 && a.open == 0
	})
}
