package sessions

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/coxswain/raft"
)

// This file holds the table in other forms: in a snapshot, and as keys and values in the store of a DurableFSM.

// Change is one key of the table in the store of a DurableFSM, with its new value; a nil value deletes the key.
type Change struct{ Key, Value []byte }

// The keys: one for the table, one for each session and one for each stored answer. Numbers are big endian.
const (
	metaKey    = 'm' // m
	sessionKey = 's' // s, index
	answerKey  = 'a' // a, index, number
)

const tableVersion = 1

// changes collects what has changed since the last take. A nil pointer collects nothing.
type changes struct {
	list     []Change
	sessions []*session
	asMeta   bool
}

func (c *changes) meta() {
	if c != nil {
		c.asMeta = true
	}
}

func (c *changes) session(s *session) {
	if c != nil && !s.changed {
		s.changed = true
		c.sessions = append(c.sessions, s)
	}
}

func (c *changes) answer(s *session, a *answer) {
	if c != nil {
		c.list = append(c.list, Change{keyOf(answerKey, uint64(s.id.Index), a.number), a.data})
	}
}

func (c *changes) forget(s *session, a *answer) {
	if c != nil {
		c.list = append(c.list, Change{Key: keyOf(answerKey, uint64(s.id.Index), a.number)})
	}
}

// take returns what has changed.
func (t *Table) take() []Change {
	c := t.changes
	list := c.list
	for _, s := range c.sessions {
		change := Change{Key: keyOf(sessionKey, uint64(s.id.Index))}
		if s.changed = false; !s.gone {
			change.Value = s.appendTo(nil)
		}
		list = append(list, change)
	}
	if c.asMeta {
		list = append(list, t.meta())
	}
	*c = changes{}
	return list
}

// all returns the whole table as changes.
func (t *Table) all() []Change {
	list := []Change{t.meta()}
	for s := t.oldest; s != nil; s = s.newer {
		list = append(list, Change{keyOf(sessionKey, uint64(s.id.Index)), s.appendTo(nil)})
		for i := range s.answers {
			list = append(list, Change{keyOf(answerKey, uint64(s.id.Index), s.answers[i].number), s.answers[i].data})
		}
	}
	return list
}

func (t *Table) meta() Change { return Change{[]byte{metaKey}, t.appendMeta(nil)} }

func keyOf(kind byte, numbers ...uint64) []byte {
	key := append(make([]byte, 0, 17), kind)
	for _, n := range numbers {
		key = binary.BigEndian.AppendUint64(key, n)
	}
	return key
}

func (t *Table) appendMeta(b []byte) []byte {
	b = append(b, tableVersion)
	b = binary.AppendUvarint(b, uint64(t.now))
	if t.limits == (Limits{}) { // nothing was opened yet
		return b
	}
	return appendLimits(b, t.limits)
}

func (s *session) appendTo(b []byte) []byte {
	b = append(b, s.id.Cluster[:]...)
	b = binary.LittleEndian.AppendUint64(b, s.id.Nonce)
	b = binary.AppendUvarint(b, uint64(s.used))
	b = binary.AppendUvarint(b, s.floor)
	return binary.AppendUvarint(b, uint64(s.window))
}

// errStored says that the stored table cannot be read.
var errStored = errors.New("raft: the stored table of sessions is damaged")

func (t *Table) setMeta(in *reader) error {
	if version := in.byte(); !in.failed && version > tableVersion {
		return &raft.LaterVersionError{Record: "the table of sessions", Found: uint64(version), Known: tableVersion}
	}
	t.now = int64(in.uvarint())
	if len(in.rest) > 0 {
		t.limits = in.limits()
	}
	if in.failed || t.now < 0 {
		return errStored
	}
	return nil
}

// session reads a session and puts it into the table, in the order of use.
func (t *Table) session(index uint64, in *reader) (*session, error) {
	s := &session{id: ID{Index: raft.Index(index)}}
	copy(s.id.Cluster[:], in.bytes(len(s.id.Cluster)))
	s.id.Nonce = in.uint64()
	s.used, s.floor = int64(in.uvarint()), in.uvarint()
	window := in.uvarint()
	s.window = uint16(window)
	if in.failed || s.used < 0 || s.used > t.now || s.floor == 0 || s.floor > numberMax || window == 0 || window > WindowMax || t.sessions[s.id.Index] != nil {
		return nil, fmt.Errorf("%w: session %d", errStored, index)
	}
	t.add(s)
	return s, nil
}

// answer adds a stored answer, which must follow those that the session has.
func (t *Table) answer(s *session, number uint64, data []byte) error {
	last := s.floor - 1
	if n := len(s.answers); n > 0 {
		last = s.answers[n-1].number
	}
	if _, err := DecodeAnswer(data); err != nil || number <= last || number >= s.floor+uint64(s.window) {
		return fmt.Errorf("%w: answer %d of session %d", errStored, number, s.id.Index)
	}
	s.answers = append(s.answers, answer{number, slices.Clone(data)})
	t.bytes += answerBytes + int64(len(data))
	return nil
}

// fromStore returns the table that a DurableFSM has stored. load calls its argument for each key, in any order.
func fromStore(load func(func(key, value []byte) error) error) (*Table, error) {
	var meta []byte
	var all []Change
	err := load(func(key, value []byte) error {
		if len(key) == 1 && key[0] == metaKey {
			meta = slices.Clone(value)
			return nil
		}
		if len(key) != 9 && len(key) != 17 || key[0] != sessionKey && key[0] != answerKey || (key[0] == answerKey) != (len(key) == 17) {
			return fmt.Errorf("%w: key %x", errStored, key)
		}
		all = append(all, Change{slices.Clone(key), slices.Clone(value)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	t := NewTable()
	if meta == nil && len(all) == 0 {
		return t, nil
	}
	if err := t.setMeta(&reader{rest: meta}); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b Change) int { // sessions first, then answers by number
		return cmp.Or(-cmp.Compare(a.Key[0], b.Key[0]), slices.Compare(a.Key, b.Key))
	})
	for _, c := range all {
		if err := t.put(c); err != nil {
			return nil, err
		}
	}
	t.relink()
	return t, nil
}

// put puts one key into the table.
func (t *Table) put(c Change) error {
	index := binary.BigEndian.Uint64(c.Key[1:])
	if c.Key[0] == answerKey {
		s := t.sessions[raft.Index(index)]
		if s == nil {
			return fmt.Errorf("%w: an answer of session %d, which is not there", errStored, index)
		}
		return t.answer(s, binary.BigEndian.Uint64(c.Key[9:]), c.Value)
	}
	in := &reader{rest: c.Value}
	if _, err := t.session(index, in); err != nil || !in.done() {
		return cmp.Or(err, fmt.Errorf("%w: session %d", errStored, index))
	}
	return nil
}

// relink puts the sessions into the order of use. The order of those of one stamp does not matter: they expire together.
func (t *Table) relink() {
	var all []*session
	for s := t.oldest; s != nil; s = s.newer {
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b *session) int { return cmp.Compare(a.used, b.used) })
	t.oldest, t.newest = nil, nil
	for _, s := range all {
		t.link(s)
	}
}

// encode returns the table for a snapshot: the table's record with its length, then for each session, in the order of the
// indexes: index, record, number of answers, and number, length and bytes of each.
func (t *Table) encode() []byte {
	all := make([]*session, 0, len(t.sessions))
	size := 64
	for s := t.oldest; s != nil; s = s.newer {
		all = append(all, s)
		size += 64
		for i := range s.answers {
			size += 16 + len(s.answers[i].data)
		}
	}
	slices.SortFunc(all, func(a, b *session) int { return cmp.Compare(a.id.Index, b.id.Index) })
	meta := t.appendMeta(nil)
	b := binary.AppendUvarint(make([]byte, 0, size), uint64(len(meta)))
	b = append(b, meta...)
	for _, s := range all {
		b = binary.AppendUvarint(b, uint64(s.id.Index))
		b = s.appendTo(b)
		b = binary.AppendUvarint(b, uint64(len(s.answers)))
		for _, a := range s.answers {
			b = binary.AppendUvarint(b, a.number)
			b = binary.AppendUvarint(b, uint64(len(a.data)))
			b = append(b, a.data...)
		}
	}
	return b
}

// decodeTable reads what encode has returned.
func decodeTable(data []byte) (*Table, error) {
	t, in := NewTable(), &reader{rest: data}
	if err := t.setMeta(&reader{rest: in.bytes(int(min(in.uvarint(), numberMax)))}); err != nil {
		return nil, err
	}
	for len(in.rest) > 0 && !in.failed {
		s, err := t.session(in.uvarint(), in)
		if err != nil {
			return nil, err
		}
		for n := in.uvarint(); n > 0; n-- {
			number := in.uvarint()
			if err := t.answer(s, number, in.bytes(int(min(in.uvarint(), numberMax)))); err != nil {
				return nil, err
			}
		}
	}
	if in.failed {
		return nil, errStored
	}
	t.relink()
	return t, nil
}
