package transport

import (
	"net"
	"net/netip"
	"runtime"
	"sync"
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
)

// callerFrom is a connection that has only a remote address, and records whether it was closed.
type callerFrom struct {
	net.Conn
	host   string
	closed bool
}

func (c *callerFrom) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.host), Port: 1} }
func (c *callerFrom) Close() error         { c.closed = true; return nil }

func TestWaiting_WhoLooksLeastLikeAMemberMakesRoom(t *testing.T) {
	for _, row := range []struct {
		rule        string
		member      string // address of the member that calls
		memberStage int
		flood       string
		floodStage  int
	}{
		{"the address is that of a member", "10.0.0.2", stageSilent, "10.9.9.9", stageSilent},
		{"the address is that of a member, even if others have sent more", "10.0.0.2", stageSilent, "10.9.9.9", stageGreeted},
		{"on one machine: it has sent something", "10.0.0.2", stageSpoken, "10.0.0.2", stageSilent},
		{"from anywhere: it has sent something", "10.0.0.3", stageSpoken, "10.9.9.9", stageSilent},
		{"from anywhere: it has begun TLS", "10.0.0.3", stageGreeted, "10.9.9.9", stageSpoken},
		{"from anywhere: it has a certificate", "10.0.0.3", stageProven, "10.9.9.9", stageGreeted},
		{"a new caller is given a moment", "10.0.0.3", stageSilent, "10.9.9.9", stageSpoken},
	} {
		t.Run(row.rule, func(t *testing.T) {
			const countMax = 64
			w := waiting{countMax: countMax, homes: map[raft.Peer][]netip.Addr{}}
			w.dialing(bob, "10.0.0.2:7000")
			enter := func(host string, stage int) *callerFrom {
				conn := &callerFrom{host: host}
				c, _ := w.enter(conn)
				c.reach(stage)
				return conn
			}
			enter(row.flood, row.floodStage)
			for range countMax {
				enter(row.flood, row.floodStage)
			}
			member := enter(row.member, row.memberStage)
			for range 10 * countMax {
				enter(row.flood, row.floodStage)
			}
			assert.False(t, member.closed)
			assert.Equal(t, countMax, w.size())
		})
	}
}

func TestWaiting_AddressesOfMembersThatAreNotNamedAreForgotten(t *testing.T) {
	w := waiting{countMax: 1, homes: map[raft.Peer][]netip.Addr{}}
	for _, address := range []string{"10.0.0.1:1", "[::ffff:10.0.0.2]:1", "[fe80::1%eth0]:1", "10.0.0.4:1", "10.0.0.5:1", "a:b"} {
		w.dialing(bob, address)
	}
	assert.Len(t, w.homes[bob], homesMax)
	assert.True(t, w.isHome(&net.TCPAddr{IP: net.ParseIP("10.0.0.2")}), "however it is written")
	assert.True(t, w.isHome(&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth1"}))
	assert.False(t, w.isHome(&net.TCPAddr{IP: net.ParseIP("10.0.0.1")}), "the oldest of too many")
	assert.False(t, w.isHome(&net.UnixAddr{}))
	w.dialing(raft.Peer{ID: "b"}, "10.0.0.9:1")
	w.keepOnly(map[raft.Peer]bool{bob: true})
	assert.Len(t, w.homes, 2, "another contact may have taken over the connection of this open contact")
	w.keepOnly(map[raft.Peer]bool{alice: true})
	assert.Empty(t, w.homes)
}

func TestTurns_AreBoundedAndThoseWhoHaveBegunComeFirst(t *testing.T) {
	turns := &turns{free: 2}
	turns.take(false)
	turns.take(false)
	var order []string
	var mu sync.Mutex
	var waiting sync.WaitGroup
	await := func(name string, first bool) {
		waiting.Go(func() {
			turns.take(first)
			mu.Lock()
			order = append(order, name)
			mu.Unlock()
			turns.give()
		})
		queue := &turns.queues[1]
		if first {
			queue = &turns.queues[0]
		}
		for range 1_000_000 {
			runtime.Gosched()
			turns.mu.Lock()
			queued := queue.Len() > 0
			turns.mu.Unlock()
			if queued {
				return
			}
		}
	}
	await("new", false)
	await("begun", true)
	turns.give()
	waiting.Wait()
	assert.Equal(t, []string{"begun", "new"}, order)
	turns.give()
	assert.Equal(t, 2, turns.free)
}

// Members that Connect does not name fill all places. Then a member that Connect names calls. Both of its lanes are still
// accepted.
func TestAccept_StrangersMakeRoomForTheMembersThatAreNamed(t *testing.T) {
	tcp, _ := listen(t, Options{InboundMax: 20})
	strangers := make([]rawCaller, 0, 20)
	for i := range 10 {
		who := raft.Peer{ID: raft.NodeID(rune('f' + i)), Incarnation: 1}
		strangers = append(strangers, call(t, tcp).shake(who, 1, raft.LaneUrgent), call(t, tcp).shake(who, 1, raft.LaneBulk))
	}
	tcp.Connect([]raft.Contact{{Member: raft.Member{ID: "a"}, Addresses: []string{"127.0.0.1:1"}}})
	call(t, tcp).shake(alice, 1, raft.LaneUrgent)
	strangers[0].untilClosed()
	strangers[1].untilClosed()
	call(t, tcp).shake(alice, 1, raft.LaneBulk)
	assert.Equal(t, 20, tcp.Stats().Inbound)
	late := call(t, tcp)
	late.write(helloOf(raft.Peer{ID: "z", Incarnation: 1}, 1, raft.LaneUrgent))
	assert.Empty(t, late.untilClosed(), "a stranger takes nobody's place")
}
