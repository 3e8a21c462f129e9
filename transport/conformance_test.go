package transport_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/transport"
	"github.com/coxswain/raft/transport/transporttest"
	"github.com/stretchr/testify/require"
)

const loopback = "127.0.0.1:0"

// tcpNetwork remembers on which port each member listened first.
type tcpNetwork struct {
	options transport.Options

	mu        sync.Mutex
	addresses map[raft.NodeID]string
}

func newTCPNetwork(options transport.Options) *tcpNetwork {
	return &tcpNetwork{options: options, addresses: map[raft.NodeID]string{}}
}

func (n *tcpNetwork) New(t *testing.T, id raft.NodeID) raft.Transport {
	n.mu.Lock()
	defer n.mu.Unlock()
	address, known := n.addresses[id]
	if !known {
		address = loopback
	}
	tcp, err := transport.Listen(address, n.options)
	require.NoError(t, err)
	n.addresses[id] = tcp.Addr().String()
	return tcp
}

func (n *tcpNetwork) Address(id raft.NodeID) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addresses[id]
}

func TestTCP_KeepsTheContract(t *testing.T) {
	leaks.Check(t)
	const writeTimeout = 300 * time.Millisecond
	transporttest.Run(t, transporttest.Harness{
		Network: func(*testing.T) transporttest.Network { return newTCPNetwork(transport.Options{}) },
		Stuck: func(*testing.T) (transporttest.Network, time.Duration) {
			return newTCPNetwork(transport.Options{WriteTimeout: writeTimeout}), writeTimeout
		},
	})
}

func TestTLS_KeepsTheContract(t *testing.T) {
	authority := newAuthority(t)
	transporttest.Run(t, transporttest.Harness{Network: func(*testing.T) transporttest.Network {
		return &tlsNetwork{tcpNetwork: newTCPNetwork(transport.Options{}), authority: authority}
	}})
}

// This runs the code of TCP in virtual time, on connections that do no I/O.
func TestPipes_KeepTheContract(t *testing.T) {
	const writeTimeout = 5 * time.Second
	transporttest.Run(t, transporttest.Harness{
		Within:  synctest.Test,
		Network: func(*testing.T) transporttest.Network { return newPipeNetwork(transport.Options{}) },
		Stuck: func(*testing.T) (transporttest.Network, time.Duration) {
			return newPipeNetwork(transport.Options{WriteTimeout: writeTimeout}), writeTimeout
		},
	})
}

// memoryNetwork adapts a Network to the suite.
type memoryNetwork struct{ *transport.Network }

func (n memoryNetwork) New(_ *testing.T, id raft.NodeID) raft.Transport {
	return n.JoinAt(id, n.Address(id))
}
func (n memoryNetwork) Address(id raft.NodeID) string { return string(id) + ":1" }

func TestMemory_KeepsTheContract(t *testing.T) {
	network := func(*testing.T) transporttest.Network { return memoryNetwork{transport.NewNetwork()} }
	t.Run("in a bubble", func(t *testing.T) {
		transporttest.Run(t, transporttest.Harness{Network: network, Within: synctest.Test})
	})
	t.Run("in real time", func(t *testing.T) {
		transporttest.Run(t, transporttest.Harness{Network: network})
	})
}
