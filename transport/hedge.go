package transport

import (
	"context"
	"net"
	"time"
)

const (
	// dialAgain is the time after which another attempt to connect starts, while the earlier ones continue.
	dialAgain = 300 * time.Millisecond
	// dialsMax bounds the concurrent attempts.
	dialsMax = 4
)

// hedged starts several attempts to connect, one after another. It returns the outcome of the first attempt that ends. The
// reason is that operating systems retransmit a lost first packet only after a second, which is many election timeouts.
// hedged cancels the other attempts and closes their connections. It returns when all attempts have ended.
func hedged(ctx context.Context, dial func(ctx context.Context, attempt int) (net.Conn, error)) (net.Conn, error) {
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
	for attempt := 0; ; {
		if running < dialsMax {
			running++
			number := attempt
			attempt++
			go func() {
				conn, err := dial(ctx, number)
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
