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
}

func newMachine(keys int) machine { return machine{values: make([]uint64, keys)} }

// reset empties the machine, as at the start of its process.
func (m *machine) reset() {
	clear(m.values)
	m.contents, m.history = 0, 0
}

// become copies the state of another machine.
func (m *machine) become(other *machine) {
	copy(m.values, other.values)
	m.contents, m.history = other.contents, other.history
}

// apply applies the command of an entry.
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
func (m *machine) digest() uint64 { return mix(m.history, m.contents) }

// command is a client's write. It has a unique serial number.
type command struct {
	serial uint64
	key    uint8
}

// commandOf returns the command of an entry (see workload.write), or zero if the entry has none.
func commandOf(e *raft.Entry) command {
	if e.Kind != raft.EntryCommand || len(e.Data) < commandBytesMin {
		return command{}
	}
	return command{binary.LittleEndian.Uint64(e.Data), e.Data[8]}
}
