package session

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sessions"
	"github.com/coxswain/raft/node"
)

// ID names a session. It is comparable, and its String is text for ParseID.
type ID = sessions.ID

// Limits bound the table of sessions, which is in the memory and in the snapshots of every member. They travel in the entry that
// opens a session; those of the newest opening count. Zero fields take the defaults:
//
//	Sessions int           // open ones: 100,000
//	Bytes    int64         // of all sessions and stored answers, about: 256 MiB
//	Idle     time.Duration // without an entry, after which a session ends: 1 h
//	Window   int           // commands of a session that may be without an answer at one time: 64
type Limits = sessions.Limits

// Durable is what Wrap asks of a raft.DurableFSM. Each method makes the state and the table of sessions durable in one step, or
// neither:
//
//	// ApplyWith is called instead of Apply, also with an empty batch. After it has put the answers to the batch into results, it
//	// calls changes once, and stores what that returns in the transaction of the batch. Applied returns last from then on.
//	ApplyWith(batch []raft.Entry, results [][]byte, last raft.EntryID, changes func() []Change) error
//	// RestoreWith is called instead of Restore. It also replaces all keys of the table by those of sessions.
//	RestoreWith(ctx context.Context, id raft.EntryID, r io.Reader, sessions []Change) error
//	// Sessions calls load for each stored key of the table, in any order, until load returns an error, which it returns. It is
//	// called once, first. load copies key and value.
//	Sessions(load func(key, value []byte) error) error
type Durable = sessions.Durable

// Change is one key of the table of sessions in the store of a Durable: Key and Value, nil if the key is to be deleted.
type Change = sessions.Change

// UnsupportedError refuses to wrap a raft.DurableFSM that is no Durable.
type UnsupportedError = sessions.UnsupportedError

// ParseID reads what ID.String has returned.
func ParseID(s string) (ID, error) { return sessions.ParseID(s) }

// Wrap returns an FSM that keeps a table of sessions beside fsm, for node.Start or member.Start. fsm sees the commands of sessions
// as ordinary commands, each once. Every member must wrap its FSM. A raft.DurableFSM must be a Durable; otherwise the error is an
// *UnsupportedError.
func Wrap(fsm raft.FSM) (raft.SessionFSM, error) { return sessions.Wrap(fsm) }

// Proposer is the member through which a session proposes: a node.Node, a member.Member, or what chooses one of several. All must
// be members of one cluster. For each call it may choose another one.
type Proposer interface {
	ProposeSession(ctx context.Context, entry []byte) (node.Result, error)
	ClusterID() raft.ClusterID
}

// Config has the settings of a session.
type Config struct {
	Limits Limits
	// AttemptTimeout is how long the first attempt of an entry may take before the next begins, or a quarter more. It doubles with
	// each attempt, up to 16 times this. Default 2 s. A shorter one repeats entries that only take their time.
	AttemptTimeout time.Duration
}

const idleMin = time.Second

// Validate returns all problems, joined, each a *raft.ConfigError.
func (c Config) Validate() error {
	err := c.Limits.WithDefaults().Validate()
	if c.Limits.Idle > 0 && c.Limits.Idle < idleMin { // of all sessions, also of those that other programs have opened
		why := fmt.Errorf("%v would end the sessions of all clients between two of their commands: take at least %v", c.Limits.Idle, idleMin)
		err = errors.Join(err, &raft.ConfigError{Field: "Limits.Idle", Err: why})
	}
	if c.AttemptTimeout < 0 {
		err = errors.Join(err, &raft.ConfigError{Field: "AttemptTimeout", Err: errors.New("it is negative; 0 takes the default of 2 s")})
	}
	return err
}

// Session proposes commands that take effect once each. Any goroutine may call its methods. A process that restarts opens another
// session: it no longer knows which commands were under way.
type Session struct {
	proposer Proposer
	id       ID
	window   uint64
	attempt  time.Duration

	mu       sync.Mutex
	next     uint64              // number of the next command
	floor    uint64              // lowest number under way, or next
	ended    map[uint64]struct{} // numbers above the floor that are not under way any more
	moved    chan struct{}       // closed when the floor rises; nil: nobody waits
	expired  bool
	patience *patience // for first attempts that begin now; nil: none has begun
}

// Open opens a session. It tries again until ctx ends, so ctx should have a deadline. An attempt that was not heard of leaves a
// session that nobody uses, until it expires.
//
// It fails with the problems of cfg, a *FullError if there are too many sessions, *node.NoSessionsError, *raft.EarlierReleaseError
// if a member runs a release without sessions, the error of a member that has ended, and ctx.Err().
func Open(ctx context.Context, p Proposer, cfg Config) (*Session, error) {
	if p == nil {
		return nil, errors.New("raft: session.Open needs a Proposer; it is nil")
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	limits := cfg.Limits.WithDefaults()
	if cfg.AttemptTimeout == 0 {
		cfg.AttemptTimeout = 2 * time.Second
	}
	cluster, err := awaitCluster(ctx, p)
	if err != nil {
		return nil, err
	}
	var nonce [8]byte
	crand.Read(nonce[:]) // never fails
	s := &Session{
		proposer: p, id: ID{Cluster: cluster, Nonce: binary.LittleEndian.Uint64(nonce[:])}, window: uint64(limits.Window),
		attempt: cfg.AttemptTimeout, next: 1, floor: 1, ended: make(map[uint64]struct{}),
	}
	request := sessions.Request{Kind: sessions.Open, ID: s.id, Limits: limits}
	o := carry(ctx, nil, p, request.Encode(), s.attempt)
	if o.err == nil && o.answer.Outcome == sessions.Opened {
		s.id.Index = o.result.Index
		return s, nil
	}
	return nil, o.error(request)
}

// awaitCluster waits until the member knows its cluster.
func awaitCluster(ctx context.Context, p Proposer) (raft.ClusterID, error) {
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		if cluster := p.ClusterID(); cluster != (raft.ClusterID{}) {
			return cluster, nil
		}
		if !sleep(ctx, pause) {
			return raft.ClusterID{}, ctx.Err()
		}
	}
}

// ID returns the id of the session.
func (s *Session) ID() ID { return s.id }

// Propose has the FSM apply a command once, and returns its answer: Result.Data is that of the first application, whatever the
// number of attempts. Result.Index is the index of the attempt that was answered, at or behind the first application, so that
// WaitApplied with it lets another member read the write. Propose copies cmd. It waits while as many commands as the window
// (Limits.Window) are under way, and tries again until ctx ends.
//
// It fails with
//
//   - ctx.Err(): not applied if the error does not match node.ErrOutcomeUnknown; otherwise it may be, once.
//   - ErrSessionExpired: the session was idle for longer than Limits.Idle, or was closed: open another one. The command may be
//     applied, once, if the error also matches node.ErrOutcomeUnknown.
//   - *AnswerTooLargeError: applied, but the FSM's answer is too large to be stored.
//   - *raft.TooLargeError: not applied, and never will be. The limit is that of node.Propose less than 100 bytes.
//   - raft.ErrClosed and other errors of a member that has ended: ask another one. The command may be applied, once, if the
//     error also matches node.ErrOutcomeUnknown.
func (s *Session) Propose(ctx context.Context, cmd []byte) (node.Result, error) {
	r := sessions.Request{Kind: sessions.Command, ID: s.id, Data: cmd}
	first, err := s.begin(ctx, &r)
	if err != nil {
		return node.Result{}, err
	}
	o := carry(ctx, first, s.proposer, r.Encode(), s.attempt)
	s.end(r.Number, first, o.err == nil && o.answer.Outcome == sessions.Expired)
	return o.command(r)
}

// Close ends the session, so that the members need not keep its answers. Commands that are under way may then end with
// ErrSessionExpired. The error is as in Propose; a session that has expired is closed.
func (s *Session) Close(ctx context.Context) error {
	r := sessions.Request{Kind: sessions.Close, ID: s.id}
	o := carry(ctx, nil, s.proposer, r.Encode(), s.attempt)
	if o.err == nil && (o.answer.Outcome == sessions.Closed || o.answer.Outcome == sessions.Expired) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.expired = true
		return nil
	}
	return o.error(r)
}

// begin waits until the window has a place, and gives the command its number and the floor.
func (s *Session) begin(ctx context.Context, r *sessions.Request) (first *patience, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		first, moved, err := s.take(ctx, r)
		if err != nil || moved == nil {
			return first, err
		}
		select {
		case <-moved:
		case <-ctx.Done():
		}
	}
}

// take takes the next number. If the window is full, it returns a channel that is closed when the floor rises.
func (s *Session) take(ctx context.Context, r *sessions.Request) (first *patience, moved <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expired {
		return nil, nil, &ExpiredError{ID: s.id}
	}
	if s.next >= s.floor+s.window {
		if s.moved == nil {
			s.moved = make(chan struct{})
		}
		return nil, s.moved, nil
	}
	r.Number, r.Floor = s.next, s.floor
	s.next++
	return s.start(ctx), nil, nil
}

// end records that a command is under way no longer: its answer is known, or nobody waits for it any more. The number is never
// used again. Once the floor has passed it, no attempt that is still on its way takes effect.
func (s *Session) end(number uint64, first *patience, expired bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first.users--
	first.release()
	s.expired = s.expired || expired
	before := s.floor
	if number > s.floor {
		s.ended[number] = struct{}{}
	} else {
		s.floor++
	}
	for len(s.ended) > 0 {
		if _, ended := s.ended[s.floor]; !ended {
			break
		}
		delete(s.ended, s.floor)
		s.floor++
	}
	if s.moved != nil && (s.floor > before || s.expired) {
		close(s.moved)
		s.moved = nil
	}
}
