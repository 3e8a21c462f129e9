package transport

import (
	"context"
	"net"
	"time"
)

const (
	// dialAgain is for how long one attempt to connect is waited for alone.
	dialAgain = 300 * time.Millisecond
	// dialsMax bounds the attempts at the same time.
	dialsMax = 4
)

// hedged connects with several attempts that begin one after the other, and returns the first that comes to
// stand or fails: systems repeat a lost first packet after a second only, which is many election timeouts.
// The others are closed. It returns when all attempts have ended.
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
