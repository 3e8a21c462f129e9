package node

import (
	"time"

	"github.com/coxswain/raft"
)

// signal wakes the one goroutine that receives from it. If the goroutine is busy, the signal waits, and several signals
// become one. So the goroutine must look at everything that may have changed.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

// wake sends the signal. It never blocks.
func (s signal) wake() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// serve calls advance whenever the signal is sent, and at the time that advance last returned, until the node stops.
func (n *Node) serve(s signal, advance func() (wake raft.Time)) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-n.stop:
			return
		case <-s:
		case <-timer.C:
		}
		if wake := advance(); wake != 0 {
			timer.Reset(time.Duration(wake - n.now().Mono))
		}
	}
}
