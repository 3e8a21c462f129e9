package fuzzy

import (
	"encoding/binary"

	"github.com/coxswain/raft"
)

// machine is the state machine of a simulated member: a small store of keys, with a digest of all commands that led to
// its state.
type machine struct {
	values   []uint64 // by key: the serial of its last write; 0: none
	contents uint64   // digest of the values
	history  uint64   // digest of the commands, in order
	ledger   *ledger  // its table of sessions; nil: the run has none
}

// newMachine returns an empty machine for a run.
func newMachine(p *Profile) *machine {
	m := &machine{values: make([]uint64, p.Load.Keys)}
	if p.Sessions.Chance > 0 {
		m.ledger = newLedger(m, p.Node.Durable, map[string][]byte{})
	}
	return m
}

// clone returns a copy.
func (m *machine) clone() *machine {
	c := &machine{values: make([]uint64, len(m.values))}
	c.become(m)
	return c
}

// reset empties the machine, as at the start of its process.
func (m *machine) reset() {
	clear(m.values)
	m.contents, m.history = 0, 0
	if m.ledger != nil {
		m.ledger = newLedger(m, m.ledger.durable, map[string][]byte{})
	}
}

// become copies the state of another machine, as a process that starts finds it.
func (m *machine) become(other *machine) {
	copy(m.values, other.values)
	m.contents, m.history = other.contents, other.history
	if other.ledger != nil {
		m.ledger = other.ledger.copied(m)
	}
}

// take applies an entry alone, and returns its answer, if the run has sessions.
func (m *machine) take(s *slot) []byte {
	switch {
	case m.ledger == nil:
		m.apply(s.command)
	case isCommand(s.entry):
		return m.ledger.apply([]*raft.Entry{s.entry})[0]
	}
	return nil
}

// apply applies a command.
func (m *machine) apply(c command) {
	if c == (command{}) {
		return
	}
	m.history = mix(mix(m.history, c.serial), uint64(c.key))
	if int(c.key) < len(m.values) {
		m.contents ^= mix(uint64(c.key), m.values[c.key]) ^ mix(uint64(c.key), c.serial)
		m.values[c.key] = c.serial
	}
}

// digest returns a hash of the state.
func (m *machine) digest() uint64 { return mix(m.history^m.ledger.digest(), m.contents) }

// command is a client's write. It has a unique serial number.
type command struct {
	serial uint64
	key    uint8
}

// commandOf returns the command of an entry (see workload.write), or zero if the entry has none.
func commandOf(e *raft.Entry) command {
	if !isCommand(e) || len(e.Data) < commandBytesMin {
		return command{}
	}
	return command{binary.LittleEndian.Uint64(e.Data), e.Data[8]}
}

// isCommand reports whether a state machine gets the entry.
func isCommand(e *raft.Entry) bool { return e.Kind == raft.EntryCommand || e.Kind == raft.EntrySession }
