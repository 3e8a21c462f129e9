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
	// CommandBytesMax bounds an encoded command: the largest key and value, and the encoding's overhead.
	CommandBytesMax = ValueBytesMax + KeyBytesMax + 512
)

// Op is the operation of a command. The numbers are part of the log's format.
type Op uint8

// The operations.
const (
	Put    Op = 1
	Delete Op = 2
)

// ConditionKind is the kind of a Condition. The numbers are part of the log's format.
type ConditionKind uint8

// The conditions.
const (
	Always     ConditionKind = 0
	IfRevision ConditionKind = 1 // the key's last change has this revision
	IfExists   ConditionKind = 2
	IfAbsent   ConditionKind = 3
)

// Condition must hold, or else the command changes nothing. It makes the command a compare-and-set.
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

// Command is a proposed change of the store.
type Command struct {
	Op        Op
	Key       string
	Value     []byte // of Put; at most ValueBytesMax bytes
	Condition Condition
}

// Answer is the store's answer to a command.
type Answer struct {
	// Failed is true if the condition did not hold. In that case, nothing was changed.
	Failed bool
	// Revision is the key's revision after the command. After a Delete, it is the index of the deletion. After a failed
	// command on an absent key, it is 0.
	Revision raft.Index
	// Existed reports whether the key existed before the command.
	Existed bool
	// Refused is the reason why the bytes are not a valid command. It is empty if they are valid.
	Refused string
}

// record is the encoded form of a Command. New releases only add fields. A decoder ignores unknown fields.
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
	h.WriteExt = true // distinguishes strings from bytes
	h.RawToString = true
	return h
}

// ErrBadKey matches the errors of CheckKey.
var ErrBadKey = errors.New("bad key")

// CheckKey returns an error that describes the problem of the key, or nil. A key has 1 to KeyBytesMax bytes of valid UTF-8.
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

// Encode returns the command as the data of a log entry. It fails if the command exceeds a limit.
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

// DecodeCommand decodes a command. The command shares no memory with data.
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

// DecodeAnswer decodes the Data of a node.Result.
func DecodeAnswer(data []byte) (Answer, error) {
	var r answerRecord
	if err := codec.NewDecoderBytes(data, handle).Decode(&r); err != nil {
		return Answer{}, fmt.Errorf("not an answer of the store: %w", err)
	}
	return Answer{r.Failed, raft.Index(r.Revision), r.Existed, r.Refused}, nil
}
