package main_test

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/demo/workload"
	"github.com/coxswain/raft/internal/namespace"
	"github.com/coxswain/raft/internal/testnet"
)

// linked is a cluster whose members communicate through links that a test can break.
type linked struct {
	cluster
	net *testnet.Net
}

// onLinks runs body with a cluster whose members are not started yet.
func onLinks(t *testing.T, body func(linked)) {
	namespace.WithNet(t, func(n *testnet.Net) {
		c := linked{newCluster(t), n}
		var ports []string
		for i := range c.Nodes {
			_, port, err := net.SplitHostPort(c.Nodes[i].RaftAddr)
			require.NoError(t, err)
			ports = append(ports, port)
			c.Nodes[i].RaftAddr = testnet.HomeAddress(port)
		}
		c.More = func(node local.Node) []string {
			args := []string{"--insecure"}
			for to, other := range c.Nodes {
				args = append(args, "--via", other.ID+"="+testnet.ViaAddress(c.place(node), to, ports[to]))
			}
			return args
		}
		body(c)
	}, func(reason string) { t.Skip(reason) })
}

func (c linked) place(n local.Node) int { return slices.Index(c.Nodes, n) }

// treat sets the behaviour of all links.
func (c linked) treat(how testnet.Link) {
	for from := range c.Nodes {
		for to := range c.Nodes {
			c.net.Treat(from, to, how)
		}
	}
}

// deafen drops everything that is sent to a member.
func (c linked) deafen(n local.Node) {
	for from := range c.Nodes {
		c.net.Treat(from, c.place(n), testnet.Link{Loss: 100})
	}
}

// cutOff drops everything that is sent to a member or by it.
func (c linked) cutOff(n local.Node) {
	c.deafen(n)
	for to := range c.Nodes {
		c.net.Treat(c.place(n), to, testnet.Link{Loss: 100})
	}
}

// stops harms one leader after another. For each leader, it returns the time from the harm until the acknowledgement of the
// first later write.
func (c linked) stops(w *workload.Workload, rounds int, harm func(leader local.Node)) (stops []time.Duration) {
	c.t.Helper()
	for range rounds {
		writes(c.t, w, 20)
		leader := c.leader("")
		harm(leader)
		began := time.Now()
		stops = append(stops, nextWrite(c.t, w, began).Sub(began))
		c.treat(testnet.Link{})
		require.NoError(c.t, c.Start(leader.ID)) // in case harm has killed the leader
		c.caughtUp()
	}
	return stops
}

func TestMeasure_LeadersThatAreCutOffOrDeaf(t *testing.T) {
	onLinks(t, func(c linked) {
		require.NoError(t, c.Start())
		w, verify := c.work()
		rounds := inFull(2, 15)
		cut := c.stops(w, rounds, func(leader local.Node) {
			c.cutOff(leader)
			go c.Kill(leader.ID)
		})
		deaf := c.stops(w, rounds, c.deafen)
		verify()
		t.Logf("leader cut off, then killed, to the next acknowledged write, %d times: %s", rounds, spread(cut))
		t.Logf("leader hears nobody but is heard, to the next acknowledged write, %d times: %s", rounds, spread(deaf))
	})
}

func TestMeasure_LongWays(t *testing.T) {
	fullOnly(t)
	onLinks(t, func(c linked) {
		require.NoError(t, c.Start())
		c.leader("")
		for _, delay := range []time.Duration{75 * time.Millisecond, 150 * time.Millisecond, 750 * time.Millisecond} {
			load := c.load(20, longTimeout)
			writes(t, load.Workload, 20)
			c.treat(testnet.Link{Delay: delay})
			load.measure(10*time.Second, "%v one way between members", delay)
			if leader, found := c.Leader(t.Context()); found {
				c.Kill(leader.ID)
				load.measureElection("%v one way, the leader killed", delay)
			} else {
				load.measureElection("%v one way, and nobody leads", delay)
			}
			c.treat(testnet.Link{})
			require.NoError(t, c.Start()) // start the member that was killed
			c.caughtUp()
			load.verify()
		}
	})
}

func TestMeasure_Loss(t *testing.T) {
	fullOnly(t)
	onLinks(t, func(c linked) {
		require.NoError(t, c.Start())
		c.leader("")
		for _, percent := range []int{5, 20, 30} {
			load := c.load(20, workload.DefaultTimeout)
			writes(t, load.Workload, 20)
			c.treat(testnet.Link{Loss: percent})
			load.measure(20*time.Second, "%d %% of the packets lost on all links (TCP: %s)", percent, c.net.CongestionControl())
			c.treat(testnet.Link{})
			c.caughtUp()
			load.verify()
		}
	})
}
