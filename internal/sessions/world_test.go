package sessions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/coxswain/raft"
)

// counter counts how often each command took effect. Its answer to a command that begins with "!" is large.
type counter struct {
	Counts map[string]int
	Total  int
}

func newCounter() *counter { return &counter{Counts: map[string]int{}} }

func (c *counter) Apply(batch []raft.Entry, results [][]byte) error {
	for i, e := range batch {
		if e.Kind != raft.EntryCommand {
			return fmt.Errorf("the FSM was given a %v", e.Kind)
		}
		results[i] = c.apply(string(e.Data))
	}
	return nil
}

func (c *counter) apply(command string) []byte {
	c.Counts[command]++
	c.Total++
	answer := fmt.Appendf(nil, "%s is effect %d", command, c.Total)
	if command[0] == '!' {
		answer = append(answer, make([]byte, 1000*len(command))...)
	}
	return answer
}

func (c *counter) Snapshot() (raft.FSMSnapshot, error) {
	data, err := json.Marshal(c)
	return frozenBytes(data), err
}

func (c *counter) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	*c = *newCounter()
	return json.Unmarshal(data, c)
}

type frozenBytes []byte

func (b frozenBytes) WriteTo(_ context.Context, w io.Writer) error { _, err := w.Write(b); return err }
func (b frozenBytes) Size() int64                                  { return int64(len(b)) }
func (b frozenBytes) Close() error                                 { return nil }

// disk is a Durable whose store is a value: each change of it is one transaction, and the store of before can be put back.
type disk struct {
	counter
	at      raft.EntryID
	table   map[string][]byte
	commits []*disk // the store after each transaction
	apart   bool    // a mistake: the table is stored in a transaction of its own, after the state
}

func newDisk() *disk { return &disk{counter: *newCounter(), table: map[string][]byte{}} }

func (d *disk) commit() {
	copied := &disk{counter: counter{maps.Clone(d.Counts), d.Total}, at: d.at, table: maps.Clone(d.table), apart: d.apart}
	d.commits = append(d.commits, copied)
}

func (d *disk) Apply([]raft.Entry, [][]byte) error {
	return errors.New("Apply was called instead of ApplyWith")
}

func (d *disk) ApplyWith(batch []raft.Entry, results [][]byte, last raft.EntryID, changes func() []Change) error {
	if err := d.counter.Apply(batch, results); err != nil {
		return err
	}
	d.at = last
	if d.apart {
		d.commit()
	}
	d.put(changes())
	d.commit()
	return nil
}

func (d *disk) put(changes []Change) {
	for _, c := range changes {
		if c.Value == nil {
			delete(d.table, string(c.Key))
		} else {
			d.table[string(c.Key)] = bytes.Clone(c.Value)
		}
	}
}

func (d *disk) RestoreWith(ctx context.Context, id raft.EntryID, r io.Reader, sessions []Change) error {
	if err := d.counter.Restore(ctx, id, r); err != nil {
		return err
	}
	d.at, d.table = id, map[string][]byte{}
	d.put(sessions)
	d.commit()
	return nil
}

func (d *disk) Restore(context.Context, raft.EntryID, io.Reader) error {
	return errors.New("Restore was called instead of RestoreWith")
}

func (d *disk) Sessions(load func(key, value []byte) error) error {
	for key, value := range d.table { // in any order
		if err := load([]byte(key), value); err != nil {
			return err
		}
	}
	return nil
}

func (d *disk) Applied() (raft.EntryID, error) { return d.at, nil }
func (d *disk) Sync() error                    { return nil }

// naive is the table as its rules say it, without any care for speed.
type naive struct {
	fsm      *counter
	sessions map[raft.Index]*naiveSession
	now      int64
	limits   Limits
}

type naiveSession struct {
	id      ID
	used    int64
	floor   uint64
	window  uint64
	answers map[uint64]Answer
}

func (n *naive) bytes() (sum int64) {
	for _, s := range n.sessions {
		sum += sessionBytes
		for _, a := range s.answers {
			sum += answerBytes + int64(len(a.Data))
			if a.Data = nil; a.Outcome != Applied {
				sum += int64(len(a.Encode()))
			} else {
				sum++
			}
		}
	}
	return sum
}

func (n *naive) apply(e raft.Entry) []byte {
	if e.Kind == raft.EntryCommand {
		return n.fsm.apply(string(e.Data))
	}
	r, err := DecodeRequest(e.Data)
	if err != nil {
		return Answer{Outcome: Malformed}.Encode()
	}
	n.now = max(n.now, e.Time)
	maps.DeleteFunc(n.sessions, func(_ raft.Index, s *naiveSession) bool { return n.now-s.used > int64(n.limits.Idle) })
	return n.decide(e, r).Encode()
}

func (n *naive) decide(e raft.Entry, r Request) Answer {
	if r.Kind == Open {
		switch l := r.Limits; {
		case len(n.sessions) >= l.Sessions:
			return Answer{Outcome: Sessions, Limit: uint64(l.Sessions)}
		case n.bytes() >= l.Bytes:
			return Answer{Outcome: Bytes, Limit: uint64(l.Bytes)}
		}
		r.ID.Index, n.limits = e.Index, r.Limits
		n.sessions[e.Index] = &naiveSession{id: r.ID, used: n.now, floor: 1, window: uint64(r.Limits.Window), answers: map[uint64]Answer{}}
		return Answer{Outcome: Opened}
	}
	s := n.sessions[r.ID.Index]
	if s == nil || s.id != r.ID {
		return Answer{Outcome: Expired}
	}
	if r.Kind == Close {
		delete(n.sessions, r.ID.Index)
		return Answer{Outcome: Closed}
	}
	s.used, s.floor = n.now, max(s.floor, r.Floor)
	maps.DeleteFunc(s.answers, func(number uint64, _ Answer) bool { return number < s.floor })
	answer, known := s.answers[r.Number]
	switch {
	case r.Number < s.floor:
		return Answer{Outcome: Answered, Floor: s.floor}
	case known:
		return answer
	case r.Number >= s.floor+s.window:
		return Answer{Outcome: Beyond, Floor: s.floor, Limit: s.window}
	case n.bytes() >= n.limits.Bytes:
		return Answer{Outcome: Bytes, Limit: uint64(n.limits.Bytes)}
	}
	answer = Answer{Outcome: Applied, Data: n.fsm.apply(string(r.Data))}
	if len(answer.Data) > AnswerBytesMax {
		answer = Answer{Outcome: TooLarge, Limit: uint64(len(answer.Data))}
	}
	s.answers[r.Number] = answer
	return answer
}

// entriesOf returns a random log with entries of sessions and others.
func entriesOf(rng *rand.Rand, count int) (log []raft.Entry) {
	limits := Limits{
		Sessions: 1 + rng.IntN(4), Bytes: []int64{500, 3000, 200_000, 1 << 30}[rng.IntN(4)], Idle: time.Duration(20 + rng.IntN(200)), Window: 1 + rng.IntN(5),
	}
	large := []uint64{7, 1 + rng.Uint64N(2)}[rng.IntN(2)] // one command of that many has a large answer
	ids := []ID{{Index: 1}}
	next := map[ID]uint64{}
	stamp := int64(1)
	for i := range count {
		e := raft.Entry{Index: raft.Index(2 + 2*i + rng.IntN(2)), Term: 1, Kind: raft.EntrySession}
		stamp += int64(rng.IntN(4) * rng.IntN(4))
		if rng.IntN(50) == 0 {
			stamp += 150
		}
		e.Time = stamp
		id := ids[len(ids)-1-rng.IntN(min(len(ids), 4))]
		switch p := rng.IntN(100); {
		case p < 12:
			e.Kind, e.Data = raft.EntryCommand, fmt.Appendf(nil, "raw%d", i)
		case p < 24:
			if rng.IntN(4) == 0 {
				limits.Sessions, limits.Idle = 1+rng.IntN(4), time.Duration(20+rng.IntN(200))
			}
			opened := ID{Cluster: raft.ClusterID{1}, Nonce: rng.Uint64()}
			e.Data = Request{Kind: Open, ID: opened, Limits: limits}.Encode()
			opened.Index = e.Index
			ids = append(ids, opened)
		case p < 27:
			e.Data = Request{Kind: Close, ID: id}.Encode()
		case p < 30:
			e.Data = []byte{1, byte(rng.IntN(5)), 3}
		case p < 34:
			id.Nonce += uint64(rng.IntN(2))
			id.Cluster[0] += byte(rng.IntN(2))
			fallthrough
		default:
			e.Data = commandOf(rng, id, next, large).Encode()
		}
		log = append(log, e)
	}
	return log
}

// commandOf returns a new command of a session or, often, an earlier one again, sometimes with a floor that is too high.
func commandOf(rng *rand.Rand, id ID, next map[ID]uint64, large uint64) Request {
	n := next[id]
	if n == 0 || rng.IntN(2) == 0 {
		n++
		next[id] = n
	} else {
		n -= min(n-1, uint64(rng.IntN(4)))
	}
	floor := n - min(n-1, uint64(rng.IntN(6)))
	data := fmt.Appendf(nil, "s%d.%d", id.Index, n)
	if n%large == 0 {
		data = append(bytes.Repeat([]byte("!"), int(n*uint64(id.Index)%90)), data...)
	}
	return Request{Kind: Command, ID: id, Number: n, Floor: floor, Data: data}
}

// batches cuts a log into batches.
func batches(rng *rand.Rand, log []raft.Entry, most int) (all [][]raft.Entry) {
	for len(log) > 0 {
		n := min(len(log), 1+rng.IntN(most))
		all = append(all, slices.Clone(log[:n]))
		log = log[n:]
	}
	return all
}
