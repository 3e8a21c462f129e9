package transport

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft"
	"github.com/hashicorp/go-hclog"
)

// Stats counts the connections of a TCP and the events on them since the TCP was created.
type Stats struct {
	Inbound    int // open inbound connections with a finished handshake, now
	Handshakes int // inbound connections with an unfinished handshake, now

	Accepted     uint64 // inbound connections, whatever their outcome
	Dialed       uint64 // pairs of outbound connections that were established
	DialFailed   uint64 // dials that did not establish a pair, for any reason
	Lost         uint64 // established pairs that have ended
	SidesDialed  uint64 // connections for snapshots or forwarded requests that were established
	Questions    uint64 // questions raft.Who that were answered; Rejected counts the others
	SidesLost    uint64 // those that broke while their pair stayed open; not those that were idle
	AcceptFailed uint64 // errors of the listener: most likely there are no file descriptors left

	// Rejected counts rejected inbound connections by raft.RejectReason; element 0 counts reasons that this
	// release does not know.
	Rejected [raft.RejectReasons]uint64

	Malformed    uint64 // connections closed because of bytes that no correct member sends
	Oversized    uint64 // connections closed because of a frame over its limit
	WrongSender  uint64 // connections closed because a message named another sender
	TLSFailed    uint64 // inbound connections whose TLS handshake failed
	HandshakeCut uint64 // inbound connections that ended, or fell silent, during their handshake
	Crowded      uint64 // inbound connections closed because of HandshakesMax or InboundMax
	Replaced     uint64 // inbound connections replaced by a newer one of the same member and lane
	Silent       uint64 // inbound connections closed by IdleTimeout, or because a message arrived too slowly
	SendFailed   uint64 // calls of Send that failed on an open connection
	Unsendable   uint64 // messages that could not be encoded, most likely because they exceed FrameBytesMax
}

// counters holds the counters of Stats.
type counters struct {
	accepted, dialed, dialFailed, lost, acceptFailed atomic.Uint64
	rejected                                         [raft.RejectReasons]atomic.Uint64
	malformed, oversized, wrongSender, tlsFailed     atomic.Uint64
	handshakeCut, crowded, replaced, silent          atomic.Uint64
	sendFailed, unsendable, sidesDialed, sidesLost   atomic.Uint64
	questions                                        atomic.Uint64
}

func (c *counters) reject(reason raft.RejectReason) {
	if int(reason) >= len(c.rejected) {
		reason = 0
	}
	c.rejected[reason].Add(1)
}

func (c *counters) stats() Stats {
	s := Stats{
		Accepted: c.accepted.Load(), Dialed: c.dialed.Load(), DialFailed: c.dialFailed.Load(),
		Lost: c.lost.Load(), SidesDialed: c.sidesDialed.Load(), SidesLost: c.sidesLost.Load(), AcceptFailed: c.acceptFailed.Load(),
		Malformed: c.malformed.Load(), Oversized: c.oversized.Load(), WrongSender: c.wrongSender.Load(),
		TLSFailed: c.tlsFailed.Load(), HandshakeCut: c.handshakeCut.Load(), Crowded: c.crowded.Load(),
		Replaced: c.replaced.Load(), Silent: c.silent.Load(),
		Questions:  c.questions.Load(),
		SendFailed: c.sendFailed.Load(), Unsendable: c.unsendable.Load(),
	}
	for i := range c.rejected {
		s.Rejected[i] = c.rejected[i].Load()
	}
	return s
}

// warner logs at most one line every warnEvery for each kind of trouble, and for each member that the configuration names. The
// line includes the number of lines that were left out.
type warner struct {
	log  hclog.Logger
	mu   sync.Mutex
	seen map[trouble]*warned
}

type trouble struct {
	message string      // a constant
	member  raft.NodeID // "": of a caller, which could choose any id
}

type warned struct {
	at      time.Time
	leftOut int
}

const warnEvery = time.Minute

func newWarner(log hclog.Logger) *warner { return &warner{log: log, seen: map[trouble]*warned{}} }

func (w *warner) warn(message string, args ...any) { w.limited(trouble{message: message}, args...) }

// warnOf is warn for a member of the configuration.
func (w *warner) warnOf(member raft.NodeID, message string, args ...any) {
	w.limited(trouble{message, member}, append([]any{"peer", member}, args...)...)
}

func (w *warner) limited(of trouble, args ...any) {
	w.mu.Lock()
	s := w.seen[of]
	if s == nil {
		s = &warned{}
		w.seen[of] = s
	}
	if !s.at.IsZero() && time.Since(s.at) < warnEvery {
		s.leftOut++
		w.mu.Unlock()
		return
	}
	leftOut := s.leftOut
	*s = warned{at: time.Now()}
	w.mu.Unlock()
	w.log.Warn(of.message, append(args, "left_out", leftOut)...)
}
