package failover

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/distribution"
	"github.com/coxswain/raft/internal/testnet"
)

const (
	// settleMax bounds the time until a healed cluster is steady, and the time until a disturbed one writes again.
	settleMax  = time.Minute
	settlePoll = 20 * time.Millisecond
	// A steady cluster rests for this time, and for up to a heartbeat more. Then the leader has told the others everything
	// that it tells them in time, and the disturbance comes at any moment between two heartbeats.
	settleRest = 300 * time.Millisecond
	heartbeat  = 50 * time.Millisecond
	// quietWrites is how many writes are timed before each trial.
	quietWrites = 5
	idleMax     = 128 // idle connections of our client to a member
)

// cluster is one of the two clusters of a pair, and what its trials have shown.
type cluster struct {
	*local.Cluster
	links  *links
	http   *http.Client
	leader local.Node // of the steady cluster
	other  local.Node // the member that the client asks in a trial

	took  samples
	acked samples // writes of the undisturbed cluster
	fails failures
}

// open starts a cluster.
func (p *pair) open(dir string, without []string) (*cluster, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	layout, err := local.OpenLayout(dir, p.Members, nil)
	if err != nil {
		return nil, err
	}
	c := &cluster{Cluster: local.NewCluster(p.program, dir, layout), links: p.links, http: client.NewHTTP(idleMax, settleMax)}
	var ports []string
	for i := range c.Nodes {
		_, port, err := net.SplitHostPort(c.Nodes[i].RaftAddr)
		if err != nil {
			return nil, err
		}
		if ports = append(ports, port); p.links != nil {
			c.Nodes[i].RaftAddr = testnet.HomeAddress(port)
		}
	}
	c.More = func(n local.Node) (args []string) {
		if len(without) > 0 {
			args = append(args, "--without", strings.Join(without, ","))
		}
		if p.links == nil {
			return args
		}
		for to, other := range c.Nodes {
			args = append(args, "--via", other.ID+"="+testnet.ViaAddress(c.place(n), to, ports[to]))
		}
		return append(args, "--insecure") // the network exists on this machine alone
	}
	if err := c.Start(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *cluster) place(n local.Node) int {
	return slices.IndexFunc(c.Nodes, func(other local.Node) bool { return other.ID == n.ID })
}

func (c *cluster) close() {
	c.Kill()
	c.Stop()
	c.http.CloseIdleConnections()
}

// settle starts all members, waits until the cluster is steady, lets it rest and times a few writes.
func (c *cluster) settle(ctx context.Context) error {
	if err := c.Start(); err != nil {
		return err
	}
	if err := c.awaitSteady(ctx); err != nil {
		return err
	}
	wait(ctx, settleRest+rand.N(heartbeat))
	for _, n := range c.Nodes {
		if err := c.Ended(n.ID); err != nil {
			return err
		}
	}
	others := slices.DeleteFunc(slices.Clone(c.Nodes), func(n local.Node) bool { return n.ID == c.leader.ID })
	c.other = others[rand.IntN(len(others))]
	for range quietWrites {
		began := time.Now()
		if err := c.put(ctx, c.other); err != nil {
			return fmt.Errorf("a write of the undisturbed cluster: %w", err)
		}
		c.acked = append(c.acked, time.Since(began))
	}
	return nil
}

// put writes once, through one member.
func (c *cluster) put(ctx context.Context, n local.Node) error {
	_, err := n.Client(c.http).Put(ctx, "failover", []byte("0123456789abcdef"), client.Condition{})
	return err
}

// awaitSteady waits until all members follow one leader, are connected and have applied the whole log.
func (c *cluster) awaitSteady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleMax)
	defer cancel()
	for {
		all := c.Statuses(ctx)
		if i := steadyLeader(all); i >= 0 {
			c.leader = c.Nodes[i]
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the cluster is not steady after %v: %w\n%s", settleMax, context.Cause(ctx), describe(all))
		}
		wait(ctx, settlePoll)
	}
}

// steadyLeader returns the place of the leader of a steady cluster, or -1.
func steadyLeader(all []api.Status) int {
	leader := slices.IndexFunc(all, func(s api.Status) bool { return s.Role == "leader" })
	if leader < 0 {
		return -1
	}
	for _, s := range all {
		apart := slices.ContainsFunc(s.Members, func(m admin.MemberStatus) bool { return m.ID != s.ID && !m.Connected })
		if s.Leader != all[leader].ID || s.Term != all[leader].Term || s.Applied != all[leader].Last || apart {
			return -1
		}
	}
	return leader
}

func describe(all []api.Status) string {
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "%s: %s in term %d, follows %q, applied %d of %d\n", s.ID, s.Role, s.Term, s.Leader, s.Applied, s.Last)
	}
	return b.String()
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// samples are durations.
type samples []time.Duration

// medianMS returns their median in milliseconds; 0 for none.
func (s samples) medianMS() float64 { return distribution.Of(s, 0).Median }

// timeSyncs times a few synced writes to the disk of the clusters.
func (s *samples) timeSyncs(dir string) (err error) {
	file, err := os.CreateTemp(dir, "sync-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	block := make([]byte, 4096)
	for i := range quietWrites + 1 {
		began := time.Now()
		if _, err := file.Write(block); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
		if i > 0 { // the first one creates the file
			*s = append(*s, time.Since(began))
		}
	}
	return nil
}
