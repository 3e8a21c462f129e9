package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sessions"
	"github.com/coxswain/raft/node"
)

// The pauses between two attempts.
const (
	pauseMin = 5 * time.Millisecond
	pauseMax = 200 * time.Millisecond
)

// attemptGrowth is how many times Config.AttemptTimeout an attempt may take at most.
const attemptGrowth = 16

// outcome is what is known of an entry after some attempts. err is nil if the table has answered.
type outcome struct {
	result   node.Result
	answer   sessions.Answer
	err      error
	attempts bool // an attempt before the last may have been applied
}

// carry proposes an entry until the table has answered, until no further attempt would help, or until ctx ends. Any attempt may
// be repeated: the table answers each, and only one takes effect. A full table is asked again, too. first is the context of the
// first attempt; nil: it takes timeout.
func carry(ctx, first context.Context, p Proposer, entry []byte, timeout time.Duration) (o outcome) {
	longest := attemptGrowth * timeout
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		if first != nil {
			o.result, o.err = p.ProposeSession(first, entry)
			first = nil
		} else {
			o.result, o.err = attempt(ctx, p, entry, timeout)
		}
		if o.err == nil {
			if o.answer, o.err = sessions.DecodeAnswer(o.result.Data); o.err != nil {
				o.attempts = true
				return o
			}
			if o.answer.Outcome != sessions.Bytes {
				return o
			}
		}
		o.attempts = o.attempts || errors.Is(o.err, node.ErrOutcomeUnknown)
		if o.err != nil && !retries(o.err) {
			return o
		}
		if ctx.Err() != nil || !sleep(ctx, pause) {
			if o.err == nil {
				o.err = &FullError{Setting: "Bytes", Limit: o.answer.Limit}
			}
			if !errors.Is(o.err, ctx.Err()) {
				o.err = errors.Join(ctx.Err(), o.err)
			}
			return o
		}
		timeout = min(2*timeout, longest)
	}
}

// attempt proposes an entry once.
func attempt(ctx context.Context, p Proposer, entry []byte, timeout time.Duration) (node.Result, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return p.ProposeSession(limited, entry)
}

// retries reports whether another attempt may help. If it may not, this member takes no more entries, or no leader does.
func retries(err error) bool {
	var elsewhere *node.NotLeaderError
	var changing *raft.ChangePendingError
	var room *raft.NoRoomError
	return errors.Is(err, node.ErrOutcomeUnknown) || errors.Is(err, raft.ErrOverloaded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &elsewhere) || errors.As(err, &changing) || errors.As(err, &room)
}

// sleep reports false if ctx has ended.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// command returns the result of a command.
func (o outcome) command(r sessions.Request) (node.Result, error) {
	if o.err != nil || o.answer.Outcome != sessions.Applied {
		return node.Result{}, o.error(r)
	}
	o.result.Data = o.answer.Data
	return o.result, nil
}

// error returns the error for an entry without the answer that was wanted.
func (o outcome) error(r sessions.Request) error {
	if o.err != nil {
		if o.attempts && !errors.Is(o.err, node.ErrOutcomeUnknown) {
			return fmt.Errorf("%w; the last attempt: %w", node.ErrOutcomeUnknown, o.err) // which may say "not applied" of itself
		}
		return o.err
	}
	a := o.answer
	switch a.Outcome {
	case sessions.Expired:
		return &ExpiredError{ID: r.ID, Number: r.Number, unknown: o.attempts}
	case sessions.Answered:
		return &AnsweredError{ID: r.ID, Number: r.Number, Floor: a.Floor}
	case sessions.Beyond:
		return &WindowError{ID: r.ID, Number: r.Number, Floor: a.Floor, Window: a.Limit}
	case sessions.Sessions:
		return &FullError{Setting: "Sessions", Limit: a.Limit}
	case sessions.Bytes:
		return &FullError{Setting: "Bytes", Limit: a.Limit}
	case sessions.TooLarge:
		return &AnswerTooLargeError{Bytes: int(a.Limit), Limit: sessions.AnswerBytesMax}
	}
	return &RefusedError{Entry: r.Kind.String(), Outcome: a.Outcome.String()}
}

// Command is a command of a session whose client is elsewhere and keeps the numbers itself, such as a client of an HTTP server.
type Command struct {
	ID     ID
	Number uint64 // from 1; a number belongs to one command for ever, so that a repeated one is known
	Floor  uint64 // 1 to Number: the client has the answers to all lower numbers, or waits for them no longer
	Data   []byte
}

// Do is Session.Propose for a Command. A command with the number of an earlier one is taken for that one, and gets its answer.
// It does not wait for the window. Since the client may have made attempts before, it also fails with
//
//   - *ExpiredError, which always matches node.ErrOutcomeUnknown.
//   - *AnsweredError: the number is below a floor that was given before.
//   - *WindowError: too many numbers are above the floor.
//   - *raft.ConfigError if the number or the floor is impossible.
func Do(ctx context.Context, p Proposer, c Command) (node.Result, error) {
	if c.Floor == 0 || c.Floor > c.Number || c.Number > 1<<62 {
		why := fmt.Errorf("number %d with floor %d; the floor is at least 1, and at most the number", c.Number, c.Floor)
		return node.Result{}, &raft.ConfigError{Field: "Command", Err: why}
	}
	r := sessions.Request{Kind: sessions.Command, ID: c.ID, Number: c.Number, Floor: c.Floor, Data: c.Data}
	o := carry(ctx, nil, p, r.Encode(), 2*time.Second)
	o.attempts = o.attempts || o.err == nil
	return o.command(r)
}
