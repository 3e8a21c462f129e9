package sessions

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Outcome says what became of the entry of a session. The numbers are in answers, which members forward.
type Outcome uint8

const (
	Applied   Outcome = 1 // the command has taken effect, once: Data is the FSM's answer, the same for every attempt
	Opened    Outcome = 2
	Closed    Outcome = 3
	Expired   Outcome = 4  // there is no session with this id, any more or at all
	Answered  Outcome = 5  // the number is below Floor: the client has said that it has the answer
	Beyond    Outcome = 6  // the number is not below Floor + Limit, where Limit is the window of the session
	Sessions  Outcome = 7  // the table has Limit sessions, and none has expired
	Bytes     Outcome = 8  // the table takes Limit bytes
	Malformed Outcome = 9  // the entry cannot be read: it has no effect
	TooLarge  Outcome = 10 // the command has taken effect, and the FSM's answer has Limit bytes, too many to be stored
)

func (o Outcome) String() string {
	names := [...]string{"", "applied", "opened", "closed", "expired", "answered", "beyond the window", "too many sessions", "too many bytes", "malformed", "answer too large"}
	if o > 0 && int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("outcome %d", uint8(o))
}

// Answer is the result of an EntrySession.
type Answer struct {
	Outcome Outcome
	Data    []byte // of Applied
	Floor   uint64 // of Answered and Beyond: the session's
	Limit   uint64
}

// Encode returns the answer as the result of the entry: the outcome, then the data or, of others, floor and limit as uvarints.
func (a Answer) Encode() []byte {
	if a.Outcome == Applied {
		b := make([]byte, 1+len(a.Data))
		b[0] = byte(Applied)
		copy(b[1:], a.Data)
		return b
	}
	b := []byte{byte(a.Outcome)}
	b = binary.AppendUvarint(b, a.Floor)
	return binary.AppendUvarint(b, a.Limit)
}

// DecodeAnswer reads what Encode has returned. Data shares it.
func DecodeAnswer(result []byte) (Answer, error) {
	in := reader{rest: result}
	a := Answer{Outcome: Outcome(in.byte())}
	if a.Outcome == Applied {
		a.Data = in.rest
		return a, nil
	}
	a.Floor, a.Limit = in.uvarint(), in.uvarint()
	if !in.done() {
		return Answer{}, errors.New("raft: the answer of the table of sessions cannot be read")
	}
	return a, nil
}
