package member

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
	"github.com/coxswain/raft/node"
)

// changeTimeout bounds one request to correct the member's entry.
const changeTimeout = 15 * time.Second

// seeker runs the rules of package joining beside the node: it asks the seeds, and carries out what follows from the answers. A
// member without Founders and Seeds only corrects its entry.
type seeker struct {
	cfg     Config
	carrier raft.WhoCarrier
	log     hclog.Logger
	wake    chan struct{} // an answer has come

	mu     sync.Mutex
	node   *node.Node // nil: it has not started yet
	rules  *joining.Seeker
	began  time.Time
	found  map[raft.NodeID]bool // whether the last dial of a member was to where it was found
	failed error                // with which the node refused the list of initial members
}

// start gives the seeker its node.
func (s *seeker) start(n *node.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.node, s.began, s.wake = n, time.Now(), make(chan struct{}, 1)
	s.rules, s.found = joining.NewSeeker(s.cfg.joining(n.Status().Incarnation)), make(map[raft.NodeID]bool)
}

// run asks and acts until the context ends.
func (s *seeker) run(ctx context.Context) {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	for {
		s.mu.Lock()
		now := s.now()
		a := s.rules.Next(now, s.state())
		s.mu.Unlock()
		s.act(ctx, &tasks, a)
		timer := time.NewTimer(time.Duration(a.Wake - now))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

func (s *seeker) now() raft.Time { return raft.Time(time.Since(s.began)) }

func (s *seeker) state() joining.State {
	status, m := s.node.Status(), s.node.Members()
	return joining.State{
		Cluster: status.Cluster, Term: status.Term, Leader: status.Leader,
		Config: m.Configuration, Index: m.Index, Committed: m.Committed,
	}
}

// act carries out what Next has asked for. What takes time gets a goroutine: the rules bound their number.
func (s *seeker) act(ctx context.Context, tasks *sync.WaitGroup, a joining.Action) {
	if r := a.Heard; r != nil {
		s.log.Info("this member has heard of a cluster, and asks to join it", "cluster", r.Cluster.String(), "from", r.From.ID)
		_ = s.node.Heard(r.Cluster, r.From.ID) // otherwise the node has ended
	}
	if a.List != nil {
		s.log.Info("the seeds show no cluster: this member takes part in beginning one", "founders", s.cfg.Founders)
		tasks.Go(func() { s.bootstrap(ctx, a.List) })
	}
	if a.Resolve {
		tasks.Go(func() {
			addresses, err := s.cfg.Seeds.resolve(ctx)
			s.then(func(now raft.Time) { s.rules.Resolved(now, addresses, err) })
		})
	}
	for _, q := range a.Ask {
		tasks.Go(func() {
			asking, cancel := context.WithTimeout(ctx, q.Timeout)
			defer cancel()
			r, err := s.carrier.Who(asking, q.Address, q.Who)
			s.then(func(raft.Time) { s.rules.Answered(q, r, err) })
		})
	}
	if a.Change != nil {
		tasks.Go(func() {
			asking, cancel := context.WithTimeout(ctx, changeTimeout)
			defer cancel()
			_, err := s.node.ChangeMembers(asking, *a.Change, a.Index)
			s.then(func(now raft.Time) { s.rules.Changed(now, err) })
		})
	}
}

// then passes an outcome to the rules, and lets them decide again.
func (s *seeker) then(outcome func(now raft.Time)) {
	s.mu.Lock()
	outcome(s.now())
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// bootstrap gives the node its list, and waits until the cluster has begun. If it began earlier, this member joins it.
func (s *seeker) bootstrap(ctx context.Context, list []raft.Member) {
	err := s.node.Bootstrap(ctx, list)
	if err == nil || ctx.Err() != nil || errors.Is(err, raft.ErrInitialized) || errors.Is(err, node.ErrWiped) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
	s.log.Error("the list of founders was refused", "error", err)
}

// missing returns what this member waits for, as Status shows it.
func (s *seeker) missing() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == nil {
		return nil
	}
	missing := s.rules.Missing(s.state())
	if s.failed != nil {
		missing = append(missing, s.failed.Error())
	}
	return missing
}

// resolve returns the address at which to dial a member. A member that was found by asking is dialed in turns where it was found,
// and where the configuration says: what was found may be out of date as well.
func (s *seeker) resolve(m raft.Member) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == nil {
		return m.Address
	}
	found := s.rules.Addresses(m.ID)
	if len(found) == 0 || found[0] == m.Address {
		return m.Address
	}
	if s.found[m.ID] = m.Address == "" || !s.found[m.ID]; s.found[m.ID] {
		return found[0]
	}
	return m.Address
}

// composed returns the Resolve of the transport: where the member was found, passed on to the user's function, if there is one.
func (s *seeker) composed(users func(context.Context, raft.Member) (string, error)) func(context.Context, raft.Member) (string, error) {
	return func(ctx context.Context, m raft.Member) (string, error) {
		m.Address = s.resolve(m)
		if users != nil {
			return users(ctx, m)
		}
		return m.Address, nil
	}
}
