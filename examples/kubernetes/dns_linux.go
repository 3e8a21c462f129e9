package main

import (
	"encoding/binary"
	"net"
	"strings"
	"sync"
)

// names is a DNS server that knows the pods, as the one of a Kubernetes cluster does. Each pod has the name POD.jobs, and
// the name jobs has the addresses of all.
type names struct {
	conn net.PacketConn
	done sync.WaitGroup

	mu   sync.Mutex
	pods map[string]net.IP
}

const (
	service = "jobs"
	domain  = "default.svc.cluster.local"
)

// serveNames answers on the connection until it is closed.
func serveNames(conn net.PacketConn) *names {
	n := &names{conn: conn, pods: map[string]net.IP{}}
	n.done.Go(func() {
		buffer := make([]byte, 512)
		for {
			size, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if a := n.answer(buffer[:size]); a != nil {
				_, _ = conn.WriteTo(a, from) // a lost answer is asked for again
			}
		}
	})
	return n
}

func (n *names) close() error {
	err := n.conn.Close()
	n.done.Wait()
	return err
}

// publish sets the address of a pod.
func (n *names) publish(pod string, ip net.IP) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods[pod] = ip
}

// lookup returns the addresses of a name, and whether the name exists.
func (n *names) lookup(name string) (all []net.IP, exists bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for pod, ip := range n.pods {
		if name == service+"."+domain || name == pod+"."+service+"."+domain {
			all = append(all, ip)
		}
	}
	return all, len(all) > 0
}

// Parts of DNS messages (RFC 1035, section 4).
const (
	headerBytes = 12
	answerFlags = 0x8580 // a response of an authority that also answers for others
	unknownName = 3
	typeA       = 1
	classIN     = 1
	toFirstName = 0xc000 | headerBytes // a name that is the one at headerBytes
	ttlSeconds  = 1
	labelMax    = 63
)

// answer returns the answer to a query, and nil if it is none. It answers the first question only, as all servers do.
func (n *names) answer(query []byte) []byte {
	if len(query) < headerBytes {
		return nil
	}
	var labels []string
	rest := query[headerBytes:]
	for {
		if len(rest) == 0 || rest[0] > labelMax || len(rest) < 1+int(rest[0]) {
			return nil
		}
		label := rest[1 : 1+rest[0]]
		rest = rest[1+rest[0]:]
		if len(label) == 0 {
			break
		}
		labels = append(labels, string(label))
	}
	if len(rest) < 4 {
		return nil
	}
	question := query[headerBytes : len(query)-len(rest)+4]
	addresses, exists := n.lookup(strings.ToLower(strings.Join(labels, ".")))
	flags := uint16(answerFlags)
	if !exists {
		flags |= unknownName
	}
	if binary.BigEndian.Uint16(rest) != typeA {
		addresses = nil
	}
	a := append([]byte(nil), query[:2]...)
	for _, number := range []uint16{flags, 1, uint16(len(addresses)), 0, 0} {
		a = binary.BigEndian.AppendUint16(a, number)
	}
	a = append(a, question...)
	for _, ip := range addresses {
		for _, number := range []uint16{toFirstName, typeA, classIN, 0, ttlSeconds, net.IPv4len} {
			a = binary.BigEndian.AppendUint16(a, number)
		}
		a = append(a, ip.To4()...)
	}
	return a
}
