package node

// signal wakes the one goroutine that receives from it. A signal that is sent while the goroutine is busy waits for it,
// and several sent meanwhile arrive as one, so the goroutine must look at everything that may have changed.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

// wake sends the signal. It never blocks.
func (s signal) wake() {
	select {
	case s <- struct{}{}:
	default:
	}
}
