package kv

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/coxswain/raft"
	"github.com/hashicorp/go-msgpack/v2/codec"
)

// Limits of the store.
const (
	KeyBytesMax   = 512
	ValueBytesMax = 1 << 20
	// CommandBytesMax bounds an encoded command: the largest key and value, and what is around them.
	CommandBytesMax = ValueBytesMax + KeyBytesMax + 512
)

// Op is what a command does. The numbers are part of the log's format.
type Op uint8

// The operations.
const (
	Put    Op = 1
	Delete Op = 2
)

// ConditionKind is what must hold for a command to change anything. The numbers are part of the
// log's format.
type ConditionKind uint8

// The conditions.
const (
	Always     ConditionKind = 0
	IfRevision ConditionKind = 1 // the key's last change has this revision
	IfExists   ConditionKind = 2
	IfAbsent   ConditionKind = 3
)

// Condition makes a command a compare-and-set.
type Condition struct {
	Kind     ConditionKind
	Revision raft.Index // of IfRevision
}

func (c Condition) holds(now Item, exists bool) bool {
	switch c.Kind {
	case IfRevision:
		return exists && now.Revision == c.Revision
	case IfExists:
		return exists
	case IfAbsent:
		return !exists
	}
	return true
}

// Command is one change of the store, as it is proposed.
type Command struct {
	Op        Op
	Key       string
	Value     []byte // of Put; at most ValueBytesMax bytes
	Condition Condition
}

// Answer is the store's answer to a command.
type Answer struct {
	// Failed says that the condition did not hold, and nothing was changed.
	Failed bool
	// Revision is the key's revision after the command; of a Delete, the index of the deletion; of
	// a failed command on an absent key, 0.
	Revision raft.Index
	// Existed says that the key existed before the command.
	Existed bool
	// Refused says why the bytes were not a valid command; empty if they were.
	Refused string
}

// record is a Command as it is stored. Fields are only ever added, and unknown ones tolerated.
type record struct {
	Op       uint8  `codec:"o"`
	Key      string `codec:"k"`
	Value    []byte `codec:"v,omitempty"`
	Kind     uint8  `codec:"c,omitempty"`
	Revision uint64 `codec:"r,omitempty"`
}

type answerRecord struct {
	Failed   bool   `codec:"f,omitempty"`
	Revision uint64 `codec:"r,omitempty"`
	Existed  bool   `codec:"e,omitempty"`
	Refused  string `codec:"x,omitempty"`
}

var handle = newHandle()

func newHandle() *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{}
	h.WriteExt = true // strings and bytes are kept apart
	h.RawToString = true
	return h
}

// ErrBadKey is matched by the errors of CheckKey.
var ErrBadKey = errors.New("bad key")

// CheckKey returns what is wrong with the key: it takes 1 to KeyBytesMax bytes of valid UTF-8.
func CheckKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: it is empty", ErrBadKey)
	case len(key) > KeyBytesMax:
		return fmt.Errorf("%w: %d bytes, over the limit of %d", ErrBadKey, len(key), KeyBytesMax)
	case !utf8.ValidString(key):
		return fmt.Errorf("%w: not valid UTF-8", ErrBadKey)
	}
	return nil
}

func (c Command) check() error {
	if c.Op != Put && c.Op != Delete {
		return fmt.Errorf("unknown operation %d", c.Op)
	}
	if c.Condition.Kind > IfAbsent {
		return fmt.Errorf("unknown condition %d", c.Condition.Kind)
	}
	if len(c.Value) > ValueBytesMax {
		return fmt.Errorf("the value has %d bytes; the limit is %d", len(c.Value), ValueBytesMax)
	}
	return CheckKey(c.Key)
}

// Encode returns the command as the data of a log entry. It fails if the command is over a limit.
func (c Command) Encode() ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	data := make([]byte, 0, len(c.Key)+len(c.Value)+32)
	err := codec.NewEncoderBytes(&data, handle).Encode(record{
		Op: uint8(c.Op), Key: c.Key, Value: c.Value,
		Kind: uint8(c.Condition.Kind), Revision: uint64(c.Condition.Revision),
	})
	return data, err
}

// DecodeCommand reads what Encode wrote. The command shares nothing with data.
func DecodeCommand(data []byte) (Command, error) {
	var r record
	if err := codec.NewDecoderBytes(data, handle).Decode(&r); err != nil {
		return Command{}, fmt.Errorf("not a command: %w", err)
	}
	c := Command{
		Op: Op(r.Op), Key: r.Key, Value: r.Value,
		Condition: Condition{ConditionKind(r.Kind), raft.Index(r.Revision)},
	}
	return c, c.check()
}

func (a Answer) encode() ([]byte, error) {
	var data []byte
	err := codec.NewEncoderBytes(&data, handle).Encode(answerRecord{a.Failed, uint64(a.Revision), a.Existed, a.Refused})
	return data, err
}

// DecodeAnswer reads the Data of a Result.
func DecodeAnswer(data []byte) (Answer, error) {
	var r answerRecord
	if err := codec.NewDecoderBytes(data, handle).Decode(&r); err != nil {
		return Answer{}, fmt.Errorf("not an answer of the store: %w", err)
	}
	return Answer{r.Failed, raft.Index(r.Revision), r.Existed, r.Refused}, nil
}
