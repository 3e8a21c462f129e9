package testnet

import (
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

const (
	packetBytesMax = 1500 // the device's default MTU
	queueMax       = 8192 // packets on the way from one member to another; more are lost
)

// Links carry packets from one member to another. Its methods may be called from any goroutine.
type Links struct {
	readers, writers sync.WaitGroup

	mu    sync.Mutex
	links [MembersMax][MembersMax]Link
	ways  [MembersMax][MembersMax]chan packet // nil: nobody is at the end
	lost  int
}

// packet is a packet on its way.
type packet struct {
	bytes []byte
	due   time.Time
}

// Treat sets what happens to the packets from one member to another.
func (l *Links) Treat(from, to int, how Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.links[from][to] = how
}

// Lost returns how many packets were dropped on purpose.
func (l *Links) Lost() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// leadTo lets all links to a member end at a device.
func (l *Links) leadTo(to int, device *os.File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for from := range l.ways {
		way := make(chan packet, queueMax)
		l.ways[from][to] = way
		l.writers.Go(func() { deliver(way, device) })
	}
}

// forward drops the packet, or sends it on its way.
func (l *Links) forward(from, to int, p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how := l.links[from][to]
	if rand.IntN(100) < how.Loss {
		l.lost++
		return
	}
	select {
	case l.ways[from][to] <- packet{p, time.Now().Add(how.Delay)}:
	default:
	}
}

// deliver writes the packets of one link to the device, each when it is due.
func deliver(way <-chan packet, device *os.File) {
	for p := range way {
		if wait := time.Until(p.due); wait > 0 {
			<-time.After(wait)
		}
		_, _ = device.Write(p.bytes) // on an error the packet is lost: the kernel has no room, or the device is closed
	}
}

// read passes the packets from a device to the function, which may keep them, until the device is closed.
func read(device *os.File, to func(packet []byte)) {
	buffer := make([]byte, packetBytesMax)
	for {
		size, err := device.Read(buffer)
		if err != nil {
			return
		}
		to(append([]byte(nil), buffer[:size]...))
	}
}

// close ends the links, when their devices are closed.
func (l *Links) close() {
	l.readers.Wait()
	for from := range l.ways {
		for _, way := range l.ways[from] {
			if way != nil {
				close(way)
			}
		}
	}
	l.writers.Wait()
}
