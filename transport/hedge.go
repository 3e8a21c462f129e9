package transport

import (
	"context"
	"net"
	"time"
)

const (
	// dialAgain is the time after which another attempt to connect starts beside the earlier ones.
	dialAgain = 300 * time.Millisecond
	// dialsMax bounds the concurrent attempts.
	dialsMax = 4
)

// hedged starts several attempts to connect, one after another, and returns the outcome of the first attempt
// that ends. Operating systems retransmit a lost first packet only after a second, which is many election
// timeouts. hedged cancels the other attempts, closes their connections, and returns when all attempts have
// ended.
func hedged(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	type outcome struct {
		conn net.Conn
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	outcomes, running := make(chan outcome), 0
	defer func() {
		cancel()
		for range running {
			if late := <-outcomes; late.err == nil {
				_ = late.conn.Close()
			}
		}
	}()
	again := time.NewTicker(dialAgain)
	defer again.Stop()
	for {
		if running < dialsMax {
			running++
			go func() {
				conn, err := dial(ctx)
				outcomes <- outcome{conn, err}
			}()
		}
		select {
		case first := <-outcomes:
			running--
			return first.conn, first.err
		case <-again.C:
		}
	}
}
