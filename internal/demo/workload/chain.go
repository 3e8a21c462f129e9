package workload

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
)

// chain is a sequence of writes by one client to a key that no other client uses. Each write is conditional on the write
// before it. If an acknowledged write is lost, the next write or the final read therefore detects the loss. The client only
// has to remember the last link.
//
// After a while the chain continues with another key, so that its history can be checked like the history of a register.
type chain struct {
	client int
	prefix string
	now    func() int64
	count  int // number of keys so far

	*round        // history of the present key
	next   uint64 // number of the latest write
	last   link
	// pending are the writes of unknown outcome after last. All of them are conditional on the revision of last, so at most
	// one of them takes effect. Once another link is written, none of them takes effect.
	pending []uint64
	// look is true if the key must be read before the next write. moved is true if a write was refused because the key had
	// changed.
	look, moved bool
	// ending is true if the key is not written any more, but must be read once more.
	ending bool
}

func newChain(client int, prefix string, now func() int64) *chain {
	ch := &chain{client: client, prefix: prefix, now: now}
	ch.begin()
	return ch
}

// begin continues the chain with a new key.
func (ch *chain) begin() {
	ch.count++
	ch.round = &round{key: fmt.Sprintf("%s/%d", ch.prefix, ch.count)}
	ch.last, ch.pending, ch.look, ch.moved, ch.ending = link{}, nil, false, false, false
}

// retire returns the present round if it is over, and continues with a new key. Otherwise it returns nil.
func (ch *chain) retire() *round {
	switch {
	case ch.ending && !ch.look:
		over := ch.round
		ch.begin()
		return over
	case ch.full():
		ch.look, ch.ending = true, true
	}
	return nil
}

// link is a write that is known to have taken effect. The zero value stands for the absent key.
type link struct {
	number   uint64
	revision uint64
}

// outcome is the outcome of a step.
type outcome uint8

const (
	stepped  outcome = iota // nothing to report
	acked                   // a write was acknowledged
	unknown                 // a write has an unknown outcome
	nowhere                 // nothing was done: ask another server
	violated                // the store broke its promise
)

// step writes the next link, or reads the key if look is set.
func (ch *chain) step(ctx context.Context, c *client.Client) (outcome, error) {
	if ch.look {
		return ch.lookup(ctx, c)
	}
	ch.next++
	number := ch.next
	condition := client.Condition{Revision: ch.last.revision, Absent: ch.last.revision == 0}
	in, call := input{kind: opSwap, value: text(number), expected: text(ch.last.number)}, ch.now()
	written, err := c.Put(ctx, ch.key, []byte(in.value), condition)
	switch {
	case err == nil:
		ch.add(ch.client, call, ch.now(), in, output{revision: written.Revision})
		ch.stand(link{number, written.Revision})
		return acked, nil
	case api.Uncertain(err):
		ch.add(ch.client, call, ch.now(), in, output{unknown: true})
		ch.pending = append(ch.pending, number)
		ch.look = true
		return unknown, err
	case api.CodeOf(err) == api.ConditionFailed:
		ch.add(ch.client, call, ch.now(), in, output{failed: true})
		ch.look, ch.moved = true, true
		return stepped, nil
	}
	return nowhere, err
}

// text returns the value of a link; "" for the absent key.
func text(number uint64) string {
	if number == 0 {
		return ""
	}
	return strconv.FormatUint(number, 10)
}

// lookup reads the key, and checks that the key holds the last link or one of the pending links.
func (ch *chain) lookup(ctx context.Context, c *client.Client) (outcome, error) {
	var found link
	call := ch.now()
	value, err := c.Get(ctx, ch.key, api.Linearizable)
	switch {
	case err == nil:
		found.revision = value.Revision
		if found.number, err = strconv.ParseUint(string(value.Data), 10, 64); err != nil {
			return violated, fmt.Errorf("%s holds %q, which nobody wrote", ch.key, value.Data)
		}
	case api.CodeOf(err) != admin.NotFound:
		return nowhere, err
	}
	ch.add(ch.client, call, ch.now(), input{kind: opGet}, output{value: text(found.number), revision: found.revision})
	last, pending, moved := ch.last, ch.pending, ch.moved
	if found == last && !moved {
		ch.look = false
		return stepped, nil
	}
	ch.stand(found)
	switch {
	case found == last:
		return violated, fmt.Errorf("%s: a write on condition of revision %d was refused, although nothing has changed",
			ch.key, last.revision)
	case !slices.Contains(pending, found.number) || found.revision <= last.revision:
		return violated, fmt.Errorf("%s: write %d at revision %d was acknowledged, but write %d at revision %d is there",
			ch.key, last.number, last.revision, found.number, found.revision)
	}
	return stepped, nil
}

// stand sets the last link.
func (ch *chain) stand(l link) {
	ch.last, ch.pending, ch.look, ch.moved = l, nil, false, false
}
