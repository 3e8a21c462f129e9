package member

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNetwork_LosesEverythingWhileItIsCut(t *testing.T) {
	n := NewNetwork()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	listener := networkListener{inner, n}
	defer listener.Close()
	outside, err := net.Dial("tcp", inner.Addr().String())
	require.NoError(t, err)
	defer outside.Close()
	inside, err := listener.Accept()
	require.NoError(t, err)
	defer inside.Close()
	var b [4]byte
	_, err = outside.Write([]byte("one."))
	require.NoError(t, err)
	_, err = inside.Read(b[:])
	require.NoError(t, err)
	assert.Equal(t, "one.", string(b[:]))

	n.Cut(true)
	_, err = inside.Write([]byte("lost"))
	require.NoError(t, err, "nothing says that it is cut")
	_, err = outside.Write([]byte("lost"))
	require.NoError(t, err)
	ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = n.dial(ended, inner.Addr().String())
	assert.ErrorIs(t, err, context.DeadlineExceeded)

	n.Cut(false)
	_, err = inside.Read(b[:])
	assert.Error(t, err, "it has lost bytes, so it is closed")
	again, err := n.dial(t.Context(), inner.Addr().String())
	require.NoError(t, err)
	assert.NoError(t, again.Close())
}
