package machines

import (
	"encoding/binary"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/rafttest"
)

func TestJournal_IsAStateMachine(t *testing.T) {
	var commands [][]byte
	for number := range uint64(5) {
		commands = append(commands, binary.BigEndian.AppendUint64(nil, number))
	}
	rafttest.CheckFSM(t, func() raft.FSM { return &journal{} }, commands)
}
