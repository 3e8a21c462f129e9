package processes

import (
	"bufio"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const patience = time.Minute

// far is the server behind a proxy. It reports the lines that it receives, and can answer.
type far struct {
	conns chan net.Conn
	lines chan string
}

func newFar(t *testing.T) (*far, *proxy) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &far{conns: make(chan net.Conn, 16), lines: make(chan string, 16)}
	ended := make(chan struct{})
	hear := func(line string) {
		select {
		case f.lines <- line:
		case <-ended:
		}
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			select {
			case f.conns <- conn:
			case <-ended:
				return
			}
			go func() {
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					hear(lines.Text())
				}
				hear("end")
			}()
		}
	}()
	p, err := newProxy(listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() {
		p.close()
		_ = listener.Close()
		close(ended)
	})
	return f, p
}

func dial(t *testing.T, p *proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// newConn returns a proxy with one connection, over which a line has passed.
func newConn(t *testing.T) (*far, *proxy, net.Conn) {
	t.Helper()
	f, p := newFar(t)
	conn := dial(t, p)
	say(t, conn, "hello")
	f.hears(t, "hello")
	return f, p, conn
}

func say(t *testing.T, conn net.Conn, line string) {
	t.Helper()
	_, err := io.WriteString(conn, line+"\n")
	require.NoError(t, err)
}

func (f *far) hears(t *testing.T, line string) {
	t.Helper()
	select {
	case heard := <-f.lines:
		assert.Equal(t, line, heard)
	case <-time.After(patience):
		require.Fail(t, "nothing arrived", line)
	}
}

func (f *far) hearsNothing(t *testing.T) {
	t.Helper()
	select {
	case heard := <-f.lines:
		assert.Fail(t, "this arrived: "+heard)
	default:
	}
}

// answers sends a line back on the connection that the server accepted last.
func (f *far) answers(t *testing.T, near net.Conn) {
	t.Helper()
	conn := <-f.conns
	say(t, conn, "answer")
	line, err := bufio.NewReader(near).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "answer\n", line)
}

// isOver checks that the connection ends.
func isOver(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
	_, err := io.Copy(io.Discard, conn)
	assert.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is still open")
}

// refuses checks that a new connection ends. The connection may end before it is established.
func refuses(t *testing.T, p *proxy) {
	t.Helper()
	conn, err := net.Dial("tcp", p.addr())
	if err != nil {
		require.ErrorIs(t, err, syscall.ECONNRESET)
		return
	}
	defer conn.Close()
	isOver(t, conn)
}

// torn counts the connections that have lost bytes.
func (p *proxy) torn() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if c.torn {
			n++
		}
	}
	return n
}

func TestProxy_PassesBothWays(t *testing.T) {
	f, _, conn := newConn(t)
	f.answers(t, conn)
	require.NoError(t, conn.Close())
	f.hears(t, "end")
}

func TestProxy_DropEndsConnectionsAndTakesNewOnes(t *testing.T) {
	f, p, conn := newConn(t)
	p.drop()
	isOver(t, conn)
	f.hears(t, "end")
	say(t, dial(t, p), "again")
	f.hears(t, "again")
}

func TestProxy_ACutLinkTakesNoneUntilItIsHealed(t *testing.T) {
	f, p, conn := newConn(t)
	p.treat(treatment{mode: cut})
	isOver(t, conn)
	f.hears(t, "end")
	refuses(t, p)
	p.treat(treatment{})
	say(t, dial(t, p), "again")
	f.hears(t, "again")
}

func TestProxy_AHalfOpenLinkStaysOpenAndSwallowsOneDirection(t *testing.T) {
	f, p, conn := newConn(t)
	p.treat(treatment{mode: halfOpen})
	say(t, conn, "lost")
	f.answers(t, conn) // the other direction works
	fresh := dial(t, p)
	say(t, fresh, "never answered")
	require.NoError(t, fresh.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := fresh.Read(make([]byte, 1))
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is open and silent")
	require.Eventually(t, func() bool { return p.torn() == 2 }, patience, time.Millisecond)
	f.hearsNothing(t)

	p.treat(treatment{}) // both have lost bytes
	isOver(t, conn)
	isOver(t, fresh)
	f.hears(t, "end")
	say(t, dial(t, p), "again")
	f.hears(t, "again")
}

func TestProxy_ADeafConnectionSwallowsAndTheOthersPass(t *testing.T) {
	for _, newest := range []bool{true, false} {
		f, p := newFar(t)
		conns := []net.Conn{dial(t, p), nil}
		say(t, conns[0], "first")
		f.hears(t, "first")
		conns[1] = dial(t, p)
		say(t, conns[1], "second")
		f.hears(t, "second")
		deaf, other := conns[0], conns[1]
		if newest {
			deaf, other = other, deaf
		}
		p.deafen(newest)
		say(t, deaf, "lost")
		say(t, other, "passes")
		f.hears(t, "passes")
		f.hearsNothing(t)
		p.treat(treatment{})
		isOver(t, deaf)
		f.hears(t, "end")
		say(t, other, "still")
		f.hears(t, "still")
	}
}

func TestProxy_AHeldLinkDeliversLater(t *testing.T) {
	f, p, conn := newConn(t)
	p.treat(treatment{mode: hold})
	say(t, conn, "late")
	f.answers(t, conn)
	f.hearsNothing(t)
	p.treat(treatment{})
	f.hears(t, "late")
}

func TestProxy_DelaysAndKeepsTheOrder(t *testing.T) {
	f, p := newFar(t)
	const delay = 30 * time.Millisecond
	p.treat(treatment{delay: delay})
	conn := dial(t, p)
	began := time.Now()
	say(t, conn, "first")
	say(t, conn, "second")
	f.hears(t, "first")
	assert.GreaterOrEqual(t, time.Since(began), delay)
	f.hears(t, "second")
}

func TestProxy_WithNobodyBehindItEndsConnections(t *testing.T) {
	p, err := newProxy("127.0.0.1:1")
	require.NoError(t, err)
	defer p.close()
	refuses(t, p)
}

func TestProxy_BoundsItsConnections(t *testing.T) {
	_, p := newFar(t)
	for range proxyConnsMax {
		dial(t, p)
	}
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.conns) == proxyConnsMax
	}, patience, time.Millisecond)
	refuses(t, p)
}

func TestProxy_CloseEndsWhatIsHeld(t *testing.T) {
	_, p, conn := newConn(t)
	p.treat(treatment{mode: hold})
	say(t, conn, "late")
	p.close()
	isOver(t, conn)
}
