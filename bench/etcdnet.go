//go:build !nopeers

package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"log"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

var discard = log.New(io.Discard, "", 0)

// etcdMailbox queues the input of the loop.
type etcdMailbox struct {
	some        chan struct{} // capacity 1
	mu          sync.Mutex
	messages    []*raftpb.Message
	unreachable []uint64
}

func (b *etcdMailbox) wake() {
	select {
	case b.some <- struct{}{}:
	default:
	}
}

func (b *etcdMailbox) put(messages ...*raftpb.Message) {
	b.mu.Lock()
	b.messages = append(b.messages, messages...)
	b.mu.Unlock()
	b.wake()
}

func (b *etcdMailbox) reportUnreachable(id uint64) {
	b.mu.Lock()
	b.unreachable = append(b.unreachable, id)
	b.mu.Unlock()
	b.wake()
}

func (b *etcdMailbox) take() (messages []*raftpb.Message, unreachable []uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	messages, unreachable = b.messages, b.unreachable
	b.messages, b.unreachable = nil, nil
	return messages, unreachable
}

const (
	etcdQueueMax = 4096 // messages that wait for one peer; more are dropped
	etcdRedial   = 10 * time.Millisecond
	etcdBuffer   = 64 << 10
)

// etcdNetwork is a plain TCP transport with one connection to each peer. The length of each message precedes the message. The
// transport writes all messages that are queued for a peer at once.
type etcdNetwork struct {
	mailbox *etcdMailbox
	peers   map[uint64]*etcdPeer
}

type etcdPeer struct {
	id      uint64
	address string
	mailbox *etcdMailbox
	some    chan struct{} // capacity 1
	yields  bool
	mu      sync.Mutex
	queue   []*raftpb.Message
}

func listenEtcd(m Member, mailbox *etcdMailbox, yields bool) (*etcdNetwork, error) {
	listener, err := net.Listen("tcp", m.address())
	if err != nil {
		return nil, err
	}
	n := &etcdNetwork{mailbox, map[uint64]*etcdPeer{}}
	for i, address := range m.Addresses {
		if id := uint64(i + 1); id != uint64(m.ID) {
			n.peers[id] = &etcdPeer{id: id, address: address, mailbox: mailbox, some: make(chan struct{}, 1), yields: yields}
			go n.peers[id].run()
		}
	}
	go n.accept(listener)
	return n, nil
}

func (n *etcdNetwork) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go n.receive(conn)
	}
}

// receive reads until the connection fails. Messages that have arrived together reach the loop together.
func (n *etcdNetwork) receive(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReaderSize(conn, etcdBuffer)
	var messages []*raftpb.Message
	var body []byte
	for {
		size, err := binary.ReadUvarint(r)
		if err != nil {
			return
		}
		body = slices.Grow(body[:0], int(size))[:size]
		if _, err := io.ReadFull(r, body); err != nil {
			return
		}
		m := &raftpb.Message{}
		if err := proto.Unmarshal(body, m); err != nil {
			return
		}
		messages = append(messages, m)
		if r.Buffered() == 0 {
			n.mailbox.put(messages...)
			messages = nil
		}
	}
}

func (n *etcdNetwork) send(messages []*raftpb.Message) {
	for _, m := range messages {
		if peer := n.peers[m.GetTo()]; peer != nil {
			peer.put(m)
		}
	}
}

func (p *etcdPeer) put(m *raftpb.Message) {
	p.mu.Lock()
	if len(p.queue) < etcdQueueMax {
		p.queue = append(p.queue, m)
	}
	p.mu.Unlock()
	select {
	case p.some <- struct{}{}:
	default:
	}
}

func (p *etcdPeer) take() []*raftpb.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	messages := p.queue
	p.queue = nil
	return messages
}

// run keeps a connection to the peer.
func (p *etcdPeer) run() {
	for ; ; time.Sleep(etcdRedial) {
		if conn, err := net.DialTimeout("tcp", p.address, time.Second); err == nil {
			p.write(conn)
			_ = conn.Close() // its write has failed
		}
		p.take()
		p.mailbox.reportUnreachable(p.id)
	}
}

// write returns when the connection fails.
func (p *etcdPeer) write(conn net.Conn) {
	w := bufio.NewWriterSize(conn, etcdBuffer)
	var buffer []byte
	for range p.some {
		if p.yields {
			runtime.Gosched() // what the loop is about to send leaves with it
		}
		for messages := p.take(); len(messages) > 0; messages = p.take() {
			for _, m := range messages {
				options := proto.MarshalOptions{}
				buffer = binary.AppendUvarint(buffer[:0], uint64(options.Size(m)))
				buffer, _ = options.MarshalAppend(buffer, m) // a message that raft made
				if _, err := w.Write(buffer); err != nil {
					return
				}
			}
		}
		if err := w.Flush(); err != nil {
			return
		}
	}
}
