package main_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/coxswain/raft/internal/demo/local"
	"github.com/stretchr/testify/require"
)

// stopTries is the number of attempts to stop a member before a test fails. A stopping member waits a second for its
// requests. On a machine under load, a client may not send a request within this second.
const stopTries = 5

// A leader that stops first transfers its leadership, and only then waits for its requests to end. Otherwise one request with
// a slowly arriving body would delay all writes.
func TestEndToEnd_ALeaderThatStopsTransfersBeforeItWaitsForRequests(t *testing.T) {
	t.Parallel()
	c, leader := startCluster(t)
	var err error
	for range stopTries {
		held := hold(t, leader)
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			c.Process(leader.ID).Stop(patience)
		}()
		next := c.leader(leader.ID)
		err = held.end()
		<-stopped
		require.NoError(t, c.Start(leader.ID))
		if err == nil {
			return
		}
		leader = next
	}
	require.NoError(t, err, "the request is carried out by the next leader")
}

// heldRequest is a write. The server waits for its body.
type heldRequest struct {
	conn   net.Conn
	answer *bufio.Reader
}

// hold begins a write, and returns once the server waits for the body.
func hold(t *testing.T, n local.Node) heldRequest {
	conn, err := net.Dial("tcp", n.HTTPAddr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	held := heldRequest{conn, bufio.NewReader(conn)}
	_, err = fmt.Fprintf(conn, "PUT /kv/held HTTP/1.1\r\nHost: %s\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", n.HTTPAddr)
	require.NoError(t, err)
	response, err := http.ReadResponse(held.answer, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusContinue, response.StatusCode)
	return held
}

// end sends the body and returns nil if the write is acknowledged.
func (h heldRequest) end() error {
	if _, err := io.WriteString(h.conn, "value"); err != nil {
		return err
	}
	response, err := http.ReadResponse(h.answer, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s", response.Status)
	}
	return nil
}
