// Package workload writes to and reads from a running cluster and checks the answers. It checks that no acknowledged write is
// lost, and that the history of all clients together is linearizable. Its memory is bounded, even if it runs for a long time.
package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
)

const (
	// DefaultTimeout replaces a Config.Timeout of 0.
	DefaultTimeout = time.Second
	// One in registerEvery operations of a client is on the shared register.
	registerEvery = 4
	// failurePause is a client's pause after an error, in addition to Config.Pause.
	failurePause  = 5 * time.Millisecond
	violationsMax = 16 // violations that are kept as text; all are counted
)

// Config holds the settings of a workload.
type Config struct {
	Servers []string // base URLs
	Clients int
	// Prefix begins all keys of the workload. At the start, the store must not hold any key with this prefix.
	Prefix string
	// Pause is each client's pause between two operations.
	Pause time.Duration
	// Timeout ends a request. A write that ends in this way has an unknown outcome. 0 means DefaultTimeout.
	Timeout time.Duration
	// Dir is the directory for a picture of a history that is not linearizable.
	Dir string
	// Keep keeps all keys, so that Verify can read them again. Memory then grows by some hundred bytes for every 400
	// operations.
	Keep bool
	// History is a file for the whole history, one operation per line; "" means none.
	History string
	// Observe, if not nil, is called at the end of each request, from any goroutine.
	Observe func(Request)
}

// Request describes a request that has ended.
type Request struct {
	Called, Ended time.Time
	Result        Result
	Write         bool // the request was a write; if it was answered, the write is acknowledged
}

// Result is the outcome of a request.
type Result uint8

// The results.
const (
	Answered Result = iota // the store answered, even if only that a condition did not hold
	Refused                // nothing was changed: no server could be reached, or none led
	Unknown                // a write that may or may not be carried out
)

// Verdict holds the findings so far.
type Verdict struct {
	Acknowledged uint64 // acknowledged writes
	Unknown      uint64 // writes whose outcome is unknown
	Lost         uint64 // acknowledged writes that are known to be lost
	Operations   int    // operations in the checked histories
	Histories    int
	Undecided    int // histories that the checker did not finish in time
	Scanned      int // keys that were read again at the end, with Config.Keep
	Violations   []string
}

// Err returns the violations as one error; nil if there are none.
func (v Verdict) Err() error {
	var errs []error
	for _, violation := range v.Violations {
		errs = append(errs, errors.New(violation))
	}
	return errors.Join(errs...)
}

// String returns the verdict as one line.
func (v Verdict) String() string {
	s := fmt.Sprintf("%d writes acknowledged, %d lost; %d of unknown outcome; %d operations in %d histories, ",
		v.Acknowledged, v.Lost, v.Unknown, v.Operations, v.Histories)
	switch {
	case len(v.Violations) > 0:
		return s + "NOT linearizable: " + v.Violations[0]
	case v.Undecided > 0:
		return s + fmt.Sprintf("linearizable, but for %d that took too long to check", v.Undecided)
	}
	return s + "linearizable"
}

// Workload is a set of clients that write and read. Its methods may be called from any goroutine.
type Workload struct {
	cfg     Config
	http    *http.Client
	chains  []*chain
	rounds  *rounds
	journal *journal
	kept    []standing // appended by the checker, read after Run

	mu      sync.Mutex
	verdict Verdict
	waiting map[*waiter]struct{}
}

// waiter waits for the acknowledgement of a write that a client called after a given time.
type waiter struct {
	after time.Time
	at    chan time.Time // receives the time of the acknowledgement; has room for one
}

// New returns a workload. The workload does nothing before Run.
func New(cfg Config) *Workload {
	w := &Workload{
		cfg: cfg, http: client.NewHTTP(cfg.Clients, cmp.Or(cfg.Timeout, DefaultTimeout)),
		rounds: newRounds(cfg.Prefix + "register/"), waiting: map[*waiter]struct{}{},
	}
	for i := range cfg.Clients {
		w.chains = append(w.chains, newChain(i, cfg.Prefix+"chain/"+strconv.Itoa(i), w.rounds.now))
	}
	w.journal = openJournal(cfg.History)
	return w
}

// Run works until the context ends. It returns when every request has ended and every history has been checked. Call it once.
func (w *Workload) Run(ctx context.Context) {
	defer w.http.CloseIdleConnections()
	var clients, checker sync.WaitGroup
	checker.Go(w.checkRounds)
	for i := range w.chains {
		clients.Go(func() { w.newWorker(i).run(ctx) })
	}
	clients.Wait()
	for _, ch := range w.chains {
		ch.stays = true // Verify reads it
		w.rounds.ended <- ch.round
	}
	w.rounds.finish()
	checker.Wait()
	_ = w.journal.close() // Verify returns the error
}

func (w *Workload) checkRounds() {
	for r := range w.rounds.ended {
		w.journal.write(r)
		result, violation := r.check(w.cfg.Dir)
		w.mu.Lock()
		w.verdict.Histories++
		w.verdict.Operations += len(r.ops)
		switch result {
		case porcupine.Illegal:
			w.violate(violation)
		case porcupine.Unknown:
			w.verdict.Undecided++
		}
		w.mu.Unlock()
		switch {
		case w.cfg.Keep:
			w.kept = append(w.kept, r.standing())
		case result == porcupine.Ok && !r.stays:
			w.discard(r.key)
		}
	}
}

// discard tries once to delete a register that no client reads again.
func (w *Workload) discard(key string) {
	for _, c := range w.clients() {
		if _, err := c.Delete(context.Background(), key, client.Condition{}); err == nil {
			return
		}
	}
}

func (w *Workload) clients() (all []*client.Client) {
	for _, server := range w.cfg.Servers {
		all = append(all, client.New(server, w.http))
	}
	return all
}

// violate is called with mu locked.
func (w *Workload) violate(what string) {
	if len(w.verdict.Violations) < violationsMax {
		w.verdict.Violations = append(w.verdict.Violations, what)
	}
}

// Verdict returns the findings so far.
func (w *Workload) Verdict() Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.verdict
	v.Violations = append([]string(nil), v.Violations...)
	return v
}

// Verify reads the keys of all chains again. With Config.Keep, it also reads all other keys. It returns the final verdict. It
// fails if the context ends first, for example because there is no leader. Call it after Run has returned.
func (w *Workload) Verify(ctx context.Context) (Verdict, error) {
	defer w.http.CloseIdleConnections()
	if err := w.journal.close(); err != nil {
		return w.Verdict(), fmt.Errorf("writing the history: %w", err)
	}
	for _, ch := range w.chains {
		_, err := client.Try(ctx, w.clients(), func(c *client.Client) (struct{}, error) {
			result, err := ch.lookup(ctx, c)
			w.count(result, err, noTime)
			if result == nowhere {
				return struct{}{}, err
			}
			return struct{}{}, nil
		})
		if err != nil {
			return w.Verdict(), fmt.Errorf("the final read of %s: %w", ch.key, err)
		}
	}
	err := w.scan(ctx)
	return w.Verdict(), err
}

// NextAcknowledged waits until a write that a client began after the given time is acknowledged. It returns the time of the
// acknowledgement.
func (w *Workload) NextAcknowledged(ctx context.Context, after time.Time) (time.Time, error) {
	waiting := &waiter{after, make(chan time.Time, 1)}
	w.mu.Lock()
	w.waiting[waiting] = struct{}{}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.waiting, waiting)
		w.mu.Unlock()
	}()
	select {
	case at := <-waiting.at:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
}

// noTime is the time of a step that no client called.
var noTime time.Time

// count records the outcome of a step and the time at which it was called.
func (w *Workload) count(result outcome, err error, called time.Time) {
	now := time.Now()
	if w.cfg.Observe != nil && called != noTime {
		w.cfg.Observe(Request{called, now, results[result], result == acked})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch result {
	case acked:
		w.verdict.Acknowledged++
		for waiting := range w.waiting {
			if called.After(waiting.after) {
				waiting.at <- now
				delete(w.waiting, waiting)
			}
		}
	case unknown:
		w.verdict.Unknown++
	case violated:
		w.verdict.Lost++
		w.violate(err.Error())
	}
}

var results = [...]Result{stepped: Answered, acked: Answered, violated: Answered, unknown: Unknown, nowhere: Refused}

// worker is one client of the workload.
type worker struct {
	w       *Workload
	id      int
	servers []*client.Client
	at      int // index of the present server
	chain   *chain
	// This is the value that this client last read from the register in the present round.
	round    *round
	value    string
	revision uint64
}

func (w *Workload) newWorker(id int) *worker {
	return &worker{w: w, id: id, servers: w.clients(), at: id % len(w.cfg.Servers), chain: w.chains[id]}
}

func (k *worker) run(ctx context.Context) {
	for i := 1; ctx.Err() == nil; i++ {
		var result outcome
		if i%registerEvery == 0 {
			result = k.operate()
		} else {
			called := time.Now()
			var err error
			result, err = k.chain.step(context.Background(), k.servers[k.at])
			k.w.count(result, err, called)
			if over := k.chain.retire(); over != nil {
				k.w.rounds.ended <- over
			}
		}
		pause := k.w.cfg.Pause
		if result == nowhere || result == unknown {
			k.at = (k.at + 1) % len(k.servers)
			pause += failurePause
		}
		rest(ctx, pause)
	}
}

func rest(ctx context.Context, pause time.Duration) {
	if pause == 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// operate does a random operation on the shared register.
func (k *worker) operate() outcome {
	r, call := k.w.rounds.enter()
	if r != k.round {
		k.round, k.value, k.revision = r, "", 0
	}
	in := input{kind: opKind(rand.IntN(int(opSwap) + 1)), value: fmt.Sprintf("%d.%d", k.id, call), expected: k.value}
	called := time.Now()
	out, err := k.do(in, r.key)
	result := stepped
	switch {
	case out == nil:
		result = nowhere
	case out.unknown:
		result = unknown
	case in.kind != opGet && !out.failed:
		result = acked
	}
	k.w.count(result, err, called)
	k.w.rounds.leave(r, k.id, call, in, out)
	return result
}

// do carries out the operation. It returns a nil output if the operation did not happen.
func (k *worker) do(in input, key string) (*output, error) {
	ctx, c := context.Background(), k.servers[k.at]
	var written api.Written
	var err error
	switch in.kind {
	case opGet:
		return k.get(ctx, c, key)
	case opPut:
		written, err = c.Put(ctx, key, []byte(in.value), client.Condition{})
	case opDelete:
		written, err = c.Delete(ctx, key, client.Condition{})
	case opSwap:
		written, err = c.Put(ctx, key, []byte(in.value), client.Condition{Revision: k.revision, Absent: k.revision == 0})
	}
	switch {
	case err == nil:
		return &output{revision: written.Revision}, nil
	case api.CodeOf(err) == api.ConditionFailed:
		return &output{failed: true}, nil
	case api.Uncertain(err):
		return &output{unknown: true}, err
	}
	return nil, err
}

func (k *worker) get(ctx context.Context, c *client.Client, key string) (*output, error) {
	value, err := c.Get(ctx, key, api.Linearizable)
	switch api.CodeOf(err) {
	case "":
		k.value, k.revision = string(value.Data), value.Revision
	case admin.NotFound:
		k.value, k.revision = "", 0
	default:
		return nil, err
	}
	return &output{value: k.value, revision: k.revision}, nil
}
