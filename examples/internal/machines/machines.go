// Package machines has the parts that the examples of membership changes share. Its members all run in this
// process, each with its own data and its own port. Its writers keep the members busy.
package machines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/member"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/transport"
)

// Cluster holds the running members.
type Cluster struct {
	dir string

	mu      sync.Mutex
	members map[raft.NodeID]*member.Member
	state   map[raft.NodeID]*journal
}

// New returns a cluster without members, which keeps its data in the directory.
func New(dir string) *Cluster {
	return &Cluster{dir: dir, members: map[raft.NodeID]*member.Member{}, state: map[raft.NodeID]*journal{}}
}

// Listen opens a port for a member on this machine.
func Listen() (*transport.TCP, error) { return transport.Listen("127.0.0.1:0", transport.Options{}) }

// Start starts a member. Only the first members of a cluster get the list initial. For a later member, initial is nil: the
// member waits until the leader adds it.
func (c *Cluster) Start(ctx context.Context, id raft.NodeID, t *transport.TCP, initial []raft.Member) error {
	state := &journal{}
	m, err := member.Start(ctx, member.Config{
		ID: id, Cluster: "example", Dir: filepath.Join(c.dir, string(id)), Transport: t, Initial: initial, Advertise: t.Addr().String(),
	}, state)
	if err != nil {
		return errors.Join(err, t.Close())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members[id], c.state[id] = m, state
	return nil
}

// Bootstrap starts the first members of the cluster, and waits until one of them leads.
func (c *Cluster) Bootstrap(ctx context.Context, ids ...raft.NodeID) error {
	var initial []raft.Member
	transports := map[raft.NodeID]*transport.TCP{}
	for _, id := range ids {
		t, err := Listen()
		if err != nil {
			return err
		}
		transports[id] = t
		initial = append(initial, raft.Member{ID: id, Address: t.Addr().String()})
	}
	for _, id := range ids {
		if err := c.Start(ctx, id, transports[id], initial); err != nil {
			return err
		}
	}
	_, err := c.Leader(ctx)
	return err
}

// Member returns a running member, or nil if the member does not run.
func (c *Cluster) Member(id raft.NodeID) *member.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[id]
}

// Stop ends a member. If lose is true, it deletes the member's data.
func (c *Cluster) Stop(id raft.NodeID, lose bool) error {
	c.mu.Lock()
	m := c.members[id]
	delete(c.members, id)
	c.mu.Unlock()
	if m == nil {
		return nil
	}
	err := m.Close()
	if errors.Is(err, raft.ErrRemoved) {
		err = nil // the member had ended before
	}
	if lose {
		err = errors.Join(err, os.RemoveAll(filepath.Join(c.dir, string(id))))
	}
	return err
}

// Close ends all members.
func (c *Cluster) Close() error {
	c.mu.Lock()
	members := c.members
	c.members = map[raft.NodeID]*member.Member{}
	c.mu.Unlock()
	var errs []error
	for _, m := range members {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// pause is the time before the next attempt.
const pause = 10 * time.Millisecond

// Leader returns the member that leads. In a service, each process learns the leader from (*node.Node).Leader. It reaches the
// leader at the URL in the leader's Meta.
func (c *Cluster) Leader(ctx context.Context) (*node.Node, error) {
	for {
		c.mu.Lock()
		for _, m := range c.members {
			if leader, known := m.Node().Leader(); known && c.members[leader.ID] != nil && c.members[leader.ID].Err() == nil {
				defer c.mu.Unlock()
				return c.members[leader.ID].Node(), nil
			}
		}
		c.mu.Unlock()
		if err := wait(ctx); err != nil {
			return nil, fmt.Errorf("no leader: %w", err)
		}
	}
}

// Change requests a membership change from the leader, and waits until the change is done. A change continues even if its
// leader ends. So if the outcome is unknown, Change requests the change again. The cluster then answers whether anything is
// left to do.
func (c *Cluster) Change(ctx context.Context, change func(leader *node.Node) (node.Members, error)) (node.Members, error) {
	for unknown := false; ; {
		leader, err := c.Leader(ctx)
		if err != nil {
			return node.Members{}, err
		}
		members, err := change(leader)
		var exists *raft.MemberExistsError
		var gone *raft.UnknownMemberError
		switch {
		case err == nil:
			return members, nil
		case unknown && (errors.As(err, &exists) || errors.As(err, &gone)):
			return leader.Members(), nil // the change was made before
		case !again(err):
			return members, err
		}
		unknown = unknown || errors.Is(err, node.ErrOutcomeUnknown) || errors.Is(err, raft.ErrRemoved)
		if failed := wait(ctx); failed != nil {
			return members, errors.Join(failed, err)
		}
	}
}

// again reports whether another attempt may succeed: another member leads, the leader is busy, or the leader does not yet
// hear from enough members.
func again(err error) bool {
	var follows *node.NotLeaderError
	var pending *raft.ChangePendingError
	var silent *raft.QuorumLossError
	var unreachable *node.UnreachableError
	return errors.As(err, &follows) || errors.As(err, &pending) || errors.As(err, &silent) || errors.As(err, &unreachable) ||
		errors.Is(err, node.ErrOutcomeUnknown) || errors.Is(err, raft.ErrOverloaded) || errors.Is(err, raft.ErrClosed) ||
		errors.Is(err, raft.ErrRemoved) // that leader was removed
}

func wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}
