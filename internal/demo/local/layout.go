package local

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/member"
)

// NodesMax bounds the members of a local cluster.
const NodesMax = 9

// layoutFile is the name of the file that holds the Layout of a directory. Addresses are part of a bootstrapped cluster's
// configuration, so a second run must use the same addresses.
const layoutFile = "nodes.json"

// Node is one member on this machine.
type Node struct {
	ID       string `json:"id"`
	RaftAddr string `json:"raft"`
	HTTPAddr string `json:"http"`
	// Joins is true if the node is not an initial member. Such a node starts without the list of initial members, and waits
	// until it is added.
	Joins bool `json:"joins,omitempty"`
}

// URL returns the base URL of the member.
func (n Node) URL() string { return "http://" + n.HTTPAddr }

// Peer returns the member in the form of --peers.
func (n Node) Peer() string {
	return member.FormatPeer(raft.Member{ID: raft.NodeID(n.ID), Address: n.RaftAddr, Meta: n.URL()})
}

// Layout lists the members of a local cluster. It holds their ports until it is closed, even while a member is down.
// Meanwhile no other demo can take these ports.
type Layout struct {
	Nodes []Node `json:"nodes"`

	// held are UDP sockets with the port numbers of the members' TCP ports. They do not interfere with TCP.
	held []net.PacketConn
}

// Peers returns the initial members in the form of --peers.
func (l *Layout) Peers() (peers []string) {
	for _, n := range l.Nodes {
		if !n.Joins {
			peers = append(peers, n.Peer())
		}
	}
	return peers
}

// Close releases the ports.
func (l *Layout) Close() {
	for _, held := range l.held {
		_ = held.Close() // nothing was written, so nothing can be lost
	}
	l.held = nil
}

// hold reserves a port if it is free.
func (l *Layout) hold(addr string) error {
	held, err := net.ListenPacket("udp", addr)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return errors.Join(err, held.Close())
	}
	l.held = append(l.held, held)
	return listener.Close()
}

// Reserve returns another address of this machine, and holds its port.
func (l *Layout) Reserve() (addr string, err error) { return l.holdAny(nil) }

// OpenLayout returns the layout of the directory. If there is none, it creates one of count members in the directory. A new
// layout uses those preferred HTTP ports that are free. Count 0 means the number in an existing layout, or 3.
func OpenLayout(dir string, count int, preferred []int) (*Layout, error) {
	if count < 0 || count > NodesMax {
		return nil, fmt.Errorf("%d nodes; use 1 to %d", count, NodesMax)
	}
	l := &Layout{}
	data, err := os.ReadFile(filepath.Join(dir, layoutFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		err = l.create(dir, cmp.Or(count, 3), preferred)
	case err == nil:
		err = l.resume(dir, count, data)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// resume loads the layout and holds its ports.
func (l *Layout) resume(dir string, count int, data []byte) error {
	if err := json.Unmarshal(data, l); err != nil || l.check() != nil {
		return fmt.Errorf("%s: %w; use another directory", filepath.Join(dir, layoutFile), errors.Join(err, l.check()))
	}
	if count != 0 && count != len(l.Nodes) {
		return fmt.Errorf("%s holds a cluster of %d nodes, not of %d: leave the number out, or use another directory",
			dir, len(l.Nodes), count)
	}
	for _, n := range l.Nodes {
		for _, addr := range []string{n.RaftAddr, n.HTTPAddr} {
			if err := l.hold(addr); err != nil {
				return fmt.Errorf("%s is in use: end the process that uses its port, perhaps a demo on the same data: %w", n.ID, err)
			}
		}
	}
	return nil
}

func (l *Layout) check() error {
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

// create chooses the ports and saves the layout.
func (l *Layout) create(dir string, count int, preferred []int) error {
	for range count {
		if err := l.choose(preferred, false); err != nil {
			return err
		}
	}
	return l.save(dir)
}

// choose appends a node on free ports.
func (l *Layout) choose(preferred []int, joins bool) error {
	http, err := l.holdAny(preferred)
	if err != nil {
		return err
	}
	raft, err := l.holdAny(nil)
	if err != nil {
		return err
	}
	l.Nodes = append(l.Nodes, Node{ID: "n" + strconv.Itoa(len(l.Nodes)+1), RaftAddr: raft, HTTPAddr: http, Joins: joins})
	return nil
}

// move gives a node other ports. The former ports stay reserved.
func (l *Layout) move(id string) error {
	http, err := l.holdAny(nil)
	if err != nil {
		return err
	}
	raft, err := l.holdAny(nil)
	for i := range l.Nodes {
		if err == nil && l.Nodes[i].ID == id {
			l.Nodes[i].RaftAddr, l.Nodes[i].HTTPAddr = raft, http
		}
	}
	return err
}

func (l *Layout) save(dir string) error {
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, layoutFile), append(data, '\n'), 0o600)
}

// Ports are chosen below the range that systems use for outgoing connections. Otherwise, while a member is down, an outgoing
// connection could take its port.
const (
	portMin   = 10_000
	portMax   = 32_000
	portTries = 1000
)

// holdAny reserves one of the preferred ports, or another port if none of them is free.
func (l *Layout) holdAny(preferred []int) (addr string, err error) {
	for i := range len(preferred) + portTries {
		port := portMin + rand.IntN(portMax-portMin)
		if i < len(preferred) {
			port = preferred[i]
		}
		addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if err = l.hold(addr); err == nil {
			return addr, nil
		}
	}
	return "", fmt.Errorf("no free port on 127.0.0.1: %w", err)
}
