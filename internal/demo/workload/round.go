package workload

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Limits of a round.
const (
	roundOpsMax     = 400 // operations
	roundUnknownMax = 6   // operations with unknown outcome; each may double the work of the check
	checkTimeout    = 20 * time.Second
	checksMax       = 8 // rounds that may wait for their check; beyond that, clients wait
)

// round is the history of one chain or of one register. All clients use this register for a while, and then never again. A
// history of many registers is linearizable if, and only if, the history of each register is linearizable. Therefore the
// check of every round checks everything, in bounded memory.
type round struct {
	key     string
	ops     []porcupine.Operation
	unknown int
	active  int  // number of clients in the round
	stays   bool // the key is read once more at the end
}

func (r *round) full() bool { return len(r.ops) >= roundOpsMax || r.unknown >= roundUnknownMax }

// add records an operation.
func (r *round) add(client int, call, ret int64, in input, out output) {
	if out.unknown {
		ret = forever
		r.unknown++
	}
	op := porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: ret}
	r.ops = append(r.ops, op)
}

// rounds gives clients the current round. Its methods may be called from any goroutine.
type rounds struct {
	prefix string
	start  time.Time
	ended  chan *round // rounds to check

	mu      sync.Mutex
	current *round
	count   int
}

func newRounds(prefix string) *rounds {
	return &rounds{prefix: prefix, start: time.Now(), ended: make(chan *round, checksMax)}
}

// enter returns the round for the next operation, and the time of the call. The caller must call leave once after each call
// of enter.
func (s *rounds) enter() (*round, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil || s.current.full() {
		s.count++
		s.current = &round{key: s.prefix + strconv.Itoa(s.count)}
	}
	s.current.active++
	return s.current, s.now()
}

// leave records the operation. A nil out means that the operation did not happen. If too many rounds wait for their check,
// leave waits, too.
func (s *rounds) leave(r *round, client int, call int64, in input, out *output) {
	if s.record(r, client, call, in, out) {
		s.ended <- r
	}
}

// record is like leave, without the wait. It reports whether the round is over.
func (s *rounds) record(r *round, client int, call int64, in input, out *output) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.active--
	if out != nil {
		r.add(client, call, s.now(), in, *out)
	}
	if r.active > 0 || !r.full() {
		return false
	}
	if s.current == r {
		s.current = nil
	}
	return true
}

// finish ends the current round. enter must not be called afterwards.
func (s *rounds) finish() {
	s.mu.Lock()
	last := s.current
	s.current = nil
	s.mu.Unlock()
	if last != nil {
		s.ended <- last
	}
	close(s.ended)
}

func (s *rounds) now() int64 { return int64(time.Since(s.start)) }

// check checks a round. It saves a picture of a round that is not linearizable.
func (r *round) check(pictureDir string) (porcupine.CheckResult, string) {
	result := porcupine.CheckOperationsTimeout(registerModel, r.ops, checkTimeout)
	if result != porcupine.Illegal {
		return result, ""
	}
	_, info := porcupine.CheckOperationsVerbose(registerModel, r.ops, checkTimeout)
	return result, fmt.Sprintf("the history of %s is not linearizable: %s", r.key, r.document(pictureDir, info))
}
