package fuzzy

import (
	"encoding/binary"

	"github.com/coxswain/raft"
)

// machine is the state machine of a simulated member: a small store of keys, with a digest of all commands that led to
// its state.
type machine struct {
	values   []uint64 // by key: the serial of its last write; 0: it was never written
	contents uint64   // a digest of the values
	history  uint64   // a digest of the commands, in their order
}

func newMachine(keys int) machine { return machine{values: make([]uint64, keys)} }

// reset empties the machine, as a start of its process does.
func (m *machine) reset() {
	clear(m.values)
	m.contents, m.history = 0, 0
}

// apply applies an entry. Only commands change the state.
func (m *machine) apply(e *raft.Entry) {
	if e.Kind != raft.EntryCommand {
		return
	}
	m.history = hashEntry(m.history, e)
	if serial, key := parseCommand(e.Data); int(key) < len(m.values) {
		m.contents ^= mix(uint64(key), m.values[key]) ^ mix(uint64(key), serial)
		m.values[key] = serial
	}
}

// digest returns a hash of the state.
func (m *machine) digest() uint64 { return mix(m.history, m.contents) }

// parseCommand reads a command, see workload.write. Serial 0 is no command of a client.
func parseCommand(data []byte) (serial uint64, key uint8) {
	if len(data) < commandBytesMin {
		return 0, 0
	}
	return binary.LittleEndian.Uint64(data), data[8]
}
