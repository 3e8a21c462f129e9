package member

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/testca"
)

// program is a release of a service. Version 1 knows the command "+", which adds 1. Version 2 also knows "*", which doubles.
type program struct {
	version uint64
	total   uint64
	touched bool // Apply or Restore was called
}

func (p *program) Apply(batch []raft.Entry, results [][]byte) error {
	p.touched = true
	for i := range batch {
		switch cmd := string(batch[i].Data); {
		case cmd == "+":
			p.total++
		case cmd == "*" && p.version >= 2:
			p.total *= 2
		default:
			return errors.New("unknown command " + cmd)
		}
		results[i] = binary.BigEndian.AppendUint64(nil, p.total)
	}
	return nil
}

func (p *program) Snapshot() (raft.FSMSnapshot, error) { return frozen(p.total), nil }

func (p *program) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error {
	p.touched = true
	return binary.Read(r, binary.BigEndian, &p.total)
}

// run starts a release of the service on the data of a member.
func (c *trio) run(i int, version uint64) (*program, error) {
	c.cfg[i].Node.AppVersion = version
	p := &program{version: version}
	m, err := Start(c.t.Context(), c.cfg[i], p)
	if err == nil {
		c.members[i] = m
		require.NoError(c.t, m.Ready(c.t.Context()))
	}
	return p, err
}

// needs waits until a member says that everybody runs the version.
func needs(t *testing.T, m *Member, version uint64) {
	t.Helper()
	for range m.Node().WatchMembers(t.Context()) {
		if m.AppVersionMin() >= version {
			break
		}
	}
	require.Equal(t, version, m.AppVersionMin())
	require.Equal(t, version, m.Status().AppVersionMin)
}

func TestUpgrade_ANewCommandWaitsForEveryMember(t *testing.T) {
	ca := testca.New(t)
	c := newStopped(t, ca)
	programs := [3]*program{}
	var err error
	for i := range programs {
		c.cfg[i].Node.AppVersion, programs[i] = 1, &program{version: 1}
		c.members[i], err = Start(t.Context(), c.cfg[i], programs[i])
		require.NoError(t, err)
	}
	defer func() {
		for _, m := range c.members {
			assert.NoError(t, m.Close())
		}
	}()
	for _, m := range c.members {
		needs(t, m, 1)
	}
	for range 3 {
		_, err = c.members[0].Propose(t.Context(), []byte("+"))
		require.NoError(t, err)
	}

	for _, step := range []struct {
		member  int
		version uint64
	}{{0, 2}, {0, 1}, {1, 2}, {0, 2}} { // one goes back meanwhile, and is upgraded again
		require.NoError(t, c.members[step.member].Close())
		programs[step.member], err = c.run(step.member, step.version)
		require.NoError(t, err)
		_, err = c.members[step.member].Propose(t.Context(), []byte("+"))
		require.NoError(t, err)
		for _, m := range c.members {
			require.EqualValues(t, 1, m.AppVersionMin(), "n3 still runs version 1")
		}
	}
	require.NoError(t, c.members[2].Close())
	programs[2], err = c.run(2, 2)
	require.NoError(t, err)
	for _, m := range c.members {
		needs(t, m, 2)
	}
	result, err := c.members[1].Propose(t.Context(), []byte("*"))
	require.NoError(t, err)
	require.EqualValues(t, 14, binary.BigEndian.Uint64(result.Data))
	c.startsNoEarlierProgram(result.Index)
	c.refusesAnEarlierProgram(ca)
}

// startsNoEarlierProgram checks that a member with an earlier program does not start, and that nothing is lost.
func (c *trio) startsNoEarlierProgram(last raft.Index) {
	t := c.t
	require.NoError(t, c.members[0].Close())
	for _, version := range []uint64{1, 0} {
		earlier, err := c.run(0, version)
		var outdated *raft.AppVersionError
		require.ErrorAs(t, err, &outdated)
		assert.Equal(t, raft.AppVersionError{ID: "n1", Own: version, Min: 2}, *outdated)
		assert.False(t, earlier.touched, "the FSM was left alone")
	}
	p, err := c.run(0, 2)
	require.NoError(t, err)
	require.NoError(t, c.members[0].WaitApplied(t.Context(), last))
	require.NoError(t, c.members[0].Close()) // to read p
	assert.EqualValues(t, 14, p.total)
	_, err = c.run(0, 2)
	require.NoError(t, err)
}

// refusesAnEarlierProgram checks that no member joins with an earlier program, whichever member is asked.
func (c *trio) refusesAnEarlierProgram(ca *testca.Authority) {
	t := c.t
	cfg := c.cfg[0]
	cfg.ID, cfg.Dir, cfg.Initial, cfg.Listen = "n4", t.TempDir(), nil, freeAddress(t)
	cfg.TLS = TLSFiles(ca.Files(t, t.TempDir(), "test", "n4"))
	join := func(version uint64) error {
		cfg.Node.AppVersion = version
		m, err := Start(t.Context(), cfg, &program{version: version})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, m.Close()) })
		for _, asked := range c.members {
			ch := raft.Change{Add: []raft.Member{{ID: "n4", Address: cfg.Listen, Kind: raft.Learner}}}
			if _, err = asked.ChangeMembers(t.Context(), ch, 0); err == nil {
				for of := range asked.Node().WatchMembers(t.Context()) { // it asked the leader, and may learn of the change later
					if _, named := of.Member("n4"); named {
						return nil
					}
				}
				return errors.New("the members never had n4")
			}
			var outdated *raft.AppVersionError
			require.ErrorAs(t, err, &outdated)
			assert.Equal(t, raft.AppVersionError{ID: "n4", Own: 1, Min: 2}, *outdated)
		}
		require.NoError(t, m.Close())
		return err
	}
	require.Error(t, join(1))
	require.NoError(t, join(3))
}

// freeAddress returns an address at which nobody listens. Its port is below the range that systems use for outgoing connections. A
// UDP socket with the same number keeps it from other tests, and from the clusters of internal/demo/local, until the test ends.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_000))
		held, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = held.Close() })
		if free, err := net.Listen("tcp", address); err == nil {
			require.NoError(t, free.Close())
			return address
		}
	}
	require.Fail(t, "no free port")
	return ""
}
