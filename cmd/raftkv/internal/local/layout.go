package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/cmd/raftkv/internal/member"
)

// NodesMax bounds the members of a local cluster.
const NodesMax = 9

// layoutFile is where a directory keeps its Layout: addresses are part of a founded cluster's
// configuration, so that a second run must use the same.
const layoutFile = "nodes.json"

// Node is one member on this machine.
type Node struct {
	ID       string `json:"id"`
	RaftAddr string `json:"raft"`
	HTTPAddr string `json:"http"`
}

// URL returns the base URL of the member.
func (n Node) URL() string { return "http://" + n.HTTPAddr }

// Peer returns the member as --peers takes it.
func (n Node) Peer() string {
	return member.FormatPeer(raft.Member{ID: raft.NodeID(n.ID), Address: n.RaftAddr, Meta: n.URL()})
}

// Layout is who belongs to a local cluster.
type Layout struct {
	Nodes []Node `json:"nodes"`
}

// Peers returns the list of all members as --peers takes it.
func (l Layout) Peers() (peers []string) {
	for _, n := range l.Nodes {
		peers = append(peers, n.Peer())
	}
	return peers
}

// OpenLayout returns the layout that the directory keeps, or makes one of count members, the first
// with the HTTP ports that are preferred, as far as these are free. Count 0 is what there is, or 3.
func OpenLayout(dir string, count int, preferred []int) (Layout, error) {
	if count < 0 || count > NodesMax {
		return Layout{}, fmt.Errorf("%d nodes; this takes 1 to %d", count, NodesMax)
	}
	data, err := os.ReadFile(filepath.Join(dir, layoutFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		if count == 0 {
			count = 3
		}
		return newLayout(dir, count, preferred)
	case err != nil:
		return Layout{}, err
	}
	var l Layout
	if err := json.Unmarshal(data, &l); err != nil || l.check() != nil {
		return Layout{}, fmt.Errorf("%s: %w; use another directory", filepath.Join(dir, layoutFile), errors.Join(err, l.check()))
	}
	if count != 0 && count != len(l.Nodes) {
		return Layout{}, fmt.Errorf("%s holds a cluster of %d nodes, not of %d: leave the number out, or use another directory", dir, len(l.Nodes), count)
	}
	for _, n := range l.Nodes {
		for _, addr := range []string{n.RaftAddr, n.HTTPAddr} {
			if !free(addr) {
				return Layout{}, fmt.Errorf("%s of %s is in use: end the process that has it, perhaps a demo on the same data", addr, n.ID)
			}
		}
	}
	return l, nil
}

func (l Layout) check() error {
	if len(l.Nodes) == 0 || len(l.Nodes) > NodesMax {
		return fmt.Errorf("%d nodes; there are 1 to %d", len(l.Nodes), NodesMax)
	}
	for _, n := range l.Nodes {
		if _, err := member.ParsePeer(n.Peer()); err != nil {
			return err
		}
	}
	return nil
}

func newLayout(dir string, count int, preferred []int) (Layout, error) {
	var l Layout
	var taken []int
	next := func() (string, error) {
		port, err := freePort(preferred, taken)
		taken = append(taken, port)
		return address(port), err
	}
	for i := range count {
		http, err := next()
		if err != nil {
			return Layout{}, err
		}
		l.Nodes = append(l.Nodes, Node{ID: "n" + strconv.Itoa(i+1), HTTPAddr: http})
	}
	preferred = nil
	for i := range l.Nodes {
		var err error
		if l.Nodes[i].RaftAddr, err = next(); err != nil {
			return Layout{}, err
		}
	}
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return Layout{}, err
	}
	return l, os.WriteFile(filepath.Join(dir, layoutFile), append(data, '\n'), 0o600)
}

// Ports below the ones that systems hand out to outgoing connections: such a connection could sit on
// a member's port while the member is down.
const (
	portMin = 10_000
	portMax = 32_000
)

func freePort(preferred, taken []int) (int, error) {
	for _, port := range preferred {
		if !slices.Contains(taken, port) && free(address(port)) {
			return port, nil
		}
	}
	for range 1000 {
		port := portMin + rand.IntN(portMax-portMin)
		if !slices.Contains(taken, port) && free(address(port)) {
			return port, nil
		}
	}
	return 0, errors.New("no free port on 127.0.0.1")
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func free(addr string) bool {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	return l.Close() == nil
}
