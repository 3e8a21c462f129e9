package node

import (
	"slices"
	"sync"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// Limits of one batch of the loop. They keep one Step, Write and Apply small enough to overlap with the next batch.
const (
	batchEventsMax = 4096    // events other than proposals
	batchBytesMax  = 4 << 20 // bytes of received entries, and of proposals
	postedMax      = 8192    // events about connections and dropped sends that wait
	allowanceBytes = 2 << 20 // bytes of entries taken from one leader while the disk is full: a sixteenth of a segment
)

// mailbox collects the events for the loop, except the requests of callers. No goroutine ever waits for room in the mailbox:
// if an event finds no room, it is dropped and counted.
type mailbox struct {
	mu            sync.Mutex
	events        queue[raft.Event] // its signal wakes the loop, also for the fields below
	received      int               // number of Received in events and held
	receivedBytes int               // bytes of the entries in them
	allowance     pipeline.Allowance
	held          []raft.Event  // Received with appends that wait for room on the disk
	persisted     raft.Seq      // highest one not stepped yet; 0: none
	applied       raft.EntryID  // highest one not stepped yet; zero: none
	batch         raft.Applying // batch that the FSM is applying, not stepped yet; zero: none
	closing       bool
	inspections   []func(*raft.Core)
}

func newMailbox() *mailbox { return &mailbox{events: queue[raft.Event]{signal: newSignal()}} }

// receive adds a message, and reports whether the limits allow it. waiting is the number of bytes of entries that the loop
// has already passed to the disk and that the disk has not written yet. While the disk is full, receive holds back appends
// beyond the allowance. Other messages overtake these appends, as they may on any network.
func (m *mailbox) receive(msg raft.Message, waiting int, full bool, cfg *Config) bool {
	size := entryBytes(msg)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.received >= cfg.ReceivedMax {
		return false
	}
	// A message is always accepted when nothing else waits, so that a large one cannot block replication.
	if queued := m.receivedBytes + waiting; size > 0 && queued > 0 && queued+size > cfg.ReceivedBytesMax {
		return false
	}
	if !full {
		m.release()
	}
	if _, appends := msg.Body.(raft.AppendRequest); appends && !m.allowance.Takes(full, msg.Term, size, allowanceBytes) {
		if len(m.held) >= cfg.ReceivedMax/2 {
			return false
		}
		m.held = append(m.held, raft.Received{Message: msg})
	} else {
		m.events.add(raft.Received{Message: msg})
	}
	m.received++
	m.receivedBytes += size
	return true
}

// releaseHeld adds the held appends. It is called while the disk has room.
func (m *mailbox) releaseHeld() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.release()
}

func (m *mailbox) release() {
	for _, e := range m.held {
		m.events.add(e)
	}
	m.held = nil
}

// post adds a PeerUp, PeerLost or SendDropped, and returns how many events it dropped. It drops e if there is no room. After
// news of a peer's end, the core gets no message that the peer sent before, so post drops those that are held back.
func (m *mailbox) post(e raft.Event) (dropped int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if lost, ok := e.(raft.PeerLost); ok && lost.Refused {
		dropped = m.dropHeld(lost.Peer)
	}
	if !m.events.offer(e, postedMax+m.received) {
		dropped++
	}
	return dropped
}

// dropHeld is called with mu held.
func (m *mailbox) dropHeld(from raft.Peer) int {
	before := len(m.held)
	m.held = slices.DeleteFunc(m.held, func(e raft.Event) bool {
		msg := e.(raft.Received).Message
		if msg.From != from {
			return false
		}
		m.received--
		m.receivedBytes -= entryBytes(msg)
		return true
	})
	return before - len(m.held)
}

// report adds an event that must not be lost. These are few: one for each snapshot that is taken or received, one for
// each stream that ends, and one for every streamReportBytes of a stream.
func (m *mailbox) report(e raft.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events.add(e)
}

func (m *mailbox) persistedUpTo(seq raft.Seq) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.persisted = seq
	m.events.wake()
}

func (m *mailbox) appliedUpTo(id raft.EntryID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied = id
	m.batch = raft.Applying{} // it has ended
	m.events.wake()
}

// applying records the batch that the FSM applies. It does not wake the loop: the next step reports the batch to the
// core, and at least one step runs in each heartbeat interval.
func (m *mailbox) applying(a raft.Applying) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.batch = a
}

func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closing = true
	m.events.wake()
}

// inspect makes the loop call look after its next step.
func (m *mailbox) inspect(look func(*raft.Core)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inspections = append(m.inspections, look)
	m.events.wake()
}

// take appends what waits to batch, within the limits of one batch.
func (m *mailbox) take(batch []raft.Event) (events []raft.Event, inspections []func(*raft.Core), closing bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.persisted != 0 {
		batch = append(batch, raft.Persisted{Seq: m.persisted})
		m.persisted = 0
	}
	if m.applied != (raft.EntryID{}) {
		batch = append(batch, raft.Applied{ID: m.applied})
		m.applied = raft.EntryID{}
	}
	if m.batch.Since != 0 {
		batch = append(batch, m.batch)
		m.batch = raft.Applying{}
	}
	waiting, n, bytes := m.events.waiting(), 0, 0
	for n < len(waiting) && n < batchEventsMax && bytes < batchBytesMax {
		if r, ok := waiting[n].(raft.Received); ok {
			size := entryBytes(r.Message)
			bytes += size
			m.receivedBytes -= size
			m.received--
		}
		n++
	}
	batch = append(batch, waiting[:n]...)
	m.events.drop(n)
	inspections, m.inspections = m.inspections, nil
	return batch, inspections, m.closing
}

// depth returns how much waits.
func (m *mailbox) depth() (received, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.received, m.receivedBytes
}

// entryBytes returns the size of the entries that a message carries.
func entryBytes(m raft.Message) int {
	switch b := m.Body.(type) {
	case raft.AppendRequest:
		return pipeline.RecordBytes(b.Entries)
	case raft.BootstrapRequest:
		return len(b.Entry.Data) + raft.RecordOverheadBytes
	}
	return 0
}
