package pipeline_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

const (
	contactTimeout = 100 * time.Millisecond
	kept           = raft.Time(10 * contactTimeout)
)

var ourCluster = raft.ClusterID{1}

// peerNamed returns the peer that a word stands for: "c" is incarnation 1 of c, "c2" incarnation 2, and "c0" any.
func peerNamed(word string) raft.Peer {
	p := raft.Peer{ID: raft.NodeID(word[:1]), Incarnation: 1}
	if len(word) > 1 {
		p.Incarnation = raft.Incarnation(word[1] - '0')
	}
	return p
}

// configOf returns a configuration of these voters, each at the address "word:1".
func configOf(words string) (c raft.Configuration) {
	var members []raft.Member
	for _, word := range strings.Fields(words) {
		p := peerNamed(word)
		members = append(members, raft.Member{ID: p.ID, Incarnation: p.Incarnation, Address: word + ":1"})
	}
	return raft.NewConfiguration(members)
}

// book holds the contacts of member a.
type book struct {
	*pipeline.Contacts
	t *testing.T
}

func bookOf(t *testing.T, begun bool) book {
	b := book{pipeline.NewContacts(peerNamed("a"), "", contactTimeout), t}
	if begun {
		b.Begin()
	}
	return b
}

// dials checks which peers the member dials at this time. want has a word for each peer. The addresses follow the word,
// unless the only address is "word:1".
func (b book) dials(now raft.Time, want string) {
	b.t.Helper()
	contacts, _, _ := b.Dial(now)
	var got []string
	for _, k := range contacts {
		word := string(k.ID)
		if k.Incarnation != 1 {
			word += fmt.Sprint(uint64(k.Incarnation))
		}
		if at := strings.Join(k.Addresses, ","); at != word+":1" {
			word += "@" + at
		}
		got = append(got, word)
	}
	assert.Equal(b.t, want, strings.Join(got, " "))
	again, changed, _ := b.Dial(now)
	assert.False(b.t, changed)
	assert.Equal(b.t, contacts, again)
}

func (b book) called(now raft.Time, word string) {
	b.Called(now, raft.Hello{From: peerNamed(word), Cluster: ourCluster, Address: word + ":1"}, ourCluster)
}

func TestContacts_IncarnationsAreOpenUntilThereIsATerm(t *testing.T) {
	b := bookOf(t, false)
	b.Config(0, configOf("a0 b0 c0"), false)
	b.dials(1, "b0 c0")
	b.Config(2, configOf("a b c"), false)
	b.dials(2, "b0@b:1 c0@c:1")
	b.Config(3, configOf("a b c2"), true)
	b.dials(3, "b0@b:1 c0@c2:1")
	b.Begin()
	b.dials(4, "b c2")
}

// A member dials all members of several configurations. Each row checks the peers right after each change, and in the end.
func TestContacts_Union(t *testing.T) {
	for _, row := range []struct {
		rule    string
		configs []string // with a "!" if it is known to be committed
		dials   string   // after the last of them
		later   string   // ten election timeouts later
	}{
		{"the configuration in force", []string{"a b c!"}, "b c", "b c"},
		{"it may be rolled back, and the one before is in force again", []string{"a b c!", "a d e"}, "b c d e", "b c d e"},
		{"every one since the last committed one", []string{"a b!", "a c", "a d"}, "b c d", "b c d"},
		{"who left, until it has heard of it", []string{"a b c!", "a b", "a b!"}, "b c", "b"},
		{"a change that was rolled back", []string{"a b!", "a b c", "a b!"}, "b c", "b"},
		{"who comes back stays", []string{"a b c!", "a b!", "a b c!"}, "b c", "b c"},
		{"two incarnations are two members", []string{"a c!", "a c c2!"}, "c c2", "c c2"},
		{"the former incarnation leaves", []string{"a c c2!", "a c2!"}, "c c2", "c2"},
		{"a member that was removed continues to dial", []string{"a b c!", "b c!"}, "b c", "b c"},
		{"the list of initial members is no configuration", []string{"a0 b0 x0", "a b c!"}, "b c", "b c"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			b := bookOf(t, true)
			now := raft.Time(5)
			for _, config := range row.configs {
				now++
				words, committed := strings.CutSuffix(config, "!")
				b.Config(now, configOf(words), committed)
				b.Dial(now)
			}
			b.dials(now, row.dials)
			b.dials(now+kept-1, row.dials)
			b.dials(now+kept, row.later)
		})
	}
}

func TestContacts_ARemovedMemberIsNoLongerDialed(t *testing.T) {
	b := bookOf(t, true)
	b.Config(1, configOf("a b c"), true)
	b.Config(2, configOf("a b"), false)
	_, _, wake := b.Dial(2)
	assert.Zero(t, wake, "the time counts from the commit, however long that takes")
	b.dials(2+20*kept, "b c")
	b.Config(1000*kept, configOf("a b"), true)
	_, _, wake = b.Dial(1000 * kept)
	assert.Equal(t, 1001*kept, wake)
	b.dials(1001*kept-1, "b c")
	b.dials(1001*kept, "b")

	b.Heard(peerNamed("c"), 1002*kept)
	b.dials(1002*kept, "b c") // its messages want an answer
	b.dials(1003*kept, "b")
}

func (b book) expels(want ...raft.Peer) {
	b.t.Helper()
	assert.Equal(b.t, want, b.Expel())
	assert.Empty(b.t, b.Expel(), "each once")
}

func removals(words ...string) (all []raft.Removal) {
	for i, word := range words {
		all = append(all, raft.Removal{Peer: peerNamed(word), Index: raft.Index(7 + i)})
	}
	return all
}

// A removed member learns of its removal from a handshake. While its old connection is open, it makes no handshake.
func TestContacts_ARemovedMemberThatIsNoLongerDialedIsDisconnected(t *testing.T) {
	b := bookOf(t, true)
	b.Config(1, configOf("a b c"), true)
	b.Config(2, configOf("a b"), false)
	b.dials(2, "b c")
	b.expels()
	b.Config(3, configOf("a b"), true)
	b.Removed(removals("c"))
	b.dials(2+kept, "b c")
	b.expels() // its time is not over
	b.dials(3+kept, "b")
	b.expels(peerNamed("c"))
	b.called(4+kept, "c") // it was let in a moment before the removal was known
	b.dials(4+kept, "b")
	b.expels(peerNamed("c"))

	b.Config(4+kept, configOf("a b c2"), false)
	b.called(5+kept, "c2")
	b.dials(5+kept, "b c2")
	b.expels() // another incarnation is another member
}

// This member may accept a removed caller before it knows of the removal. Once it knows, it neither dials nor keeps the
// caller.
func TestContacts_ACallerThatWasRemovedIsDisconnected(t *testing.T) {
	b := bookOf(t, true)
	b.Config(1, configOf("a b"), true)
	b.called(1, "d")
	b.called(1, "e")
	b.dials(1, "b d e")
	b.Removed(removals("c", "d"))
	b.dials(2, "b e")
	b.expels(peerNamed("c"), peerNamed("d"))
	all, _ := b.Callers(2)
	assert.Equal(t, []raft.Peer{peerNamed("e")}, all)
}

func TestContacts_NobodyElseIsDisconnected(t *testing.T) {
	b := bookOf(t, true)
	b.Config(1, configOf("a b c"), true)
	b.Removed(removals("a", "c"))
	b.Config(2, configOf("a b"), false) // the last committed configuration names c, so it is dialed
	b.dials(2, "b c")
	b.expels() // and this member itself learns of its removal otherwise
}

func TestContacts_CallersAreDialedBack(t *testing.T) {
	b := bookOf(t, true)
	b.Config(0, configOf("a b c"), true)
	b.called(1, "d")
	b.called(1, "b")
	b.called(1, "c2")
	b.dials(1, "b c c2 d")
	_, _, wake := b.Dial(1)
	assert.Equal(t, 1+kept, wake)

	b.Heard(peerNamed("d"), kept)
	b.dials(kept, "b c c2 d")
	b.dials(1+kept, "b c d")
	_, silent := b.Callers(1 + kept)
	assert.Equal(t, []raft.Peer{peerNamed("c2")}, silent)
	b.dials(2*kept, "b c")
	b.Heard(peerNamed("c2"), 3*kept)
	b.dials(3*kept, "b c c2") // on a connection that stood all the time

	b.Config(3*kept, configOf("a b c d"), false)
	b.dials(9*kept, "b c d") // a configuration names it now
}

func TestContacts_NotEveryCallerIsDialedBack(t *testing.T) {
	other := raft.ClusterID{2}
	for _, row := range []struct {
		rule  string
		own   raft.ClusterID
		hello raft.Hello
		dials string
	}{
		{"of this cluster", ourCluster, raft.Hello{From: peerNamed("d"), Cluster: ourCluster, Address: "d:1"}, "b d"},
		{"of another cluster", ourCluster, raft.Hello{From: peerNamed("d"), Cluster: other, Address: "d:1"}, "b"},
		{"of no cluster", ourCluster, raft.Hello{From: peerNamed("d"), Address: "d:1"}, "b"},
		{"this member belongs to none", raft.ClusterID{}, raft.Hello{From: peerNamed("d"), Cluster: other, Address: "d:1"}, "b d"},
		{"neither belongs to any", raft.ClusterID{}, raft.Hello{From: peerNamed("d"), Address: "d:1"}, "b"},
		{"it does not say where it is", ourCluster, raft.Hello{From: peerNamed("d"), Cluster: ourCluster}, "b"},
		{"it says that it is this member", ourCluster, raft.Hello{From: peerNamed("a"), Cluster: ourCluster, Address: "d:1"}, "b"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			b := bookOf(t, true)
			b.Config(0, configOf("a b"), true)
			b.Called(1, row.hello, row.own)
			b.dials(1, row.dials)
		})
	}
}

// A new member has an empty store and no list of initial members. So it belongs to no cluster until the first append names
// one.
func TestContacts_ANewMemberDialsItsLeaderBack(t *testing.T) {
	b := bookOf(t, false)
	b.Config(0, raft.Configuration{}, true)
	b.Called(1, raft.Hello{From: peerNamed("d"), Cluster: ourCluster, Address: "d:1"}, raft.ClusterID{})
	b.Called(1, raft.Hello{From: peerNamed("d2"), Cluster: ourCluster, Address: "d2:1"}, raft.ClusterID{})
	b.dials(1, "d d2")
	b.Begin()
	b.Config(2, configOf("a d"), false)
	b.dials(2, "d d2")
}

// An empty member with a list of initial members is brought into a cluster whose leader has taken the place of a former
// incarnation. The snapshot that it receives first names the former one.
func TestContacts_ALeaderThatAnOldConfigurationNamesByAFormerIncarnationIsDialedBack(t *testing.T) {
	b := bookOf(t, false)
	b.Config(0, configOf("a0 b0 c0"), false)
	b.called(1, "b2")
	b.dials(1, "b0 c0")
	b.Begin()
	b.Config(2, configOf("a b c"), true)
	b.dials(2, "b b2 c")
	b.Config(3, configOf("a b2 c"), true)
	b.dials(3+2*kept, "b2 c")
}

func TestContacts_ANamedCallerIsStillDialedWhereItCalledFrom(t *testing.T) {
	b := bookOf(t, true)
	b.Called(0, raft.Hello{From: peerNamed("b"), Cluster: ourCluster, Address: "new:1"}, ourCluster)
	b.Config(0, configOf("a b"), true) // an earlier address of b; the memory of this member does not hold the newer one
	b.dials(0, "b@new:1,b:1")
}

func TestContacts_CallersAreBounded(t *testing.T) {
	b := bookOf(t, true)
	b.Config(0, configOf("a"), true)
	for i := range 100 {
		p := raft.Peer{ID: "z", Incarnation: raft.Incarnation(i + 1)}
		b.Called(raft.Time(i), raft.Hello{From: p, Cluster: ourCluster, Address: "z:1"}, ourCluster)
		b.Heard(raft.Peer{ID: "z", Incarnation: 7}, raft.Time(i))
	}
	contacts, _, _ := b.Dial(100)
	require.Len(t, contacts, 16)
	assert.Equal(t, raft.Incarnation(7), contacts[0].Incarnation, "it was heard all the time")
	assert.Equal(t, raft.Incarnation(86), contacts[1].Incarnation)
	all, _ := b.Callers(100)
	assert.Len(t, all, 16)
}

// If a voter that this member does not know yet calls, this member dials it back at once. This holds even if many other
// callers call and are heard.
func TestContacts_ACallerTakesThePlaceOfTheOneThatIsSilentLongest(t *testing.T) {
	b := bookOf(t, true)
	b.Config(0, configOf("a"), true)
	stranger := func(i int) raft.Peer { return raft.Peer{ID: "z", Incarnation: raft.Incarnation(i + 1)} }
	for i := range 16 {
		b.Called(1, raft.Hello{From: stranger(i), Cluster: ourCluster, Address: "z:1"}, ourCluster)
		b.Heard(stranger(i), raft.Time(100+i))
	}
	b.called(200, "v")
	all, silent := b.Callers(200)
	assert.Contains(t, all, peerNamed("v"))
	assert.NotContains(t, all, stranger(0))
	assert.Len(t, all, 16)
	assert.Empty(t, silent)
	b.Heard(peerNamed("v"), 210)
	for i := range 100 { // it keeps its place while it speaks more often than the others
		b.Called(raft.Time(220+i), raft.Hello{From: stranger(20 + i), Cluster: ourCluster, Address: "z:1"}, ourCluster)
		b.Heard(peerNamed("v"), raft.Time(220+i))
	}
	all, _ = b.Callers(300)
	assert.Contains(t, all, peerNamed("v"))
}

func TestContacts_LeaversAndUncommittedConfigurationsAreBounded(t *testing.T) {
	b := bookOf(t, true)
	for i := range 2000 {
		b.Config(raft.Time(i), configOf("a b"), i < 1000)
		p := raft.Peer{ID: "z", Incarnation: raft.Incarnation(i + 1)}
		b.Config(raft.Time(i), raft.NewConfiguration([]raft.Member{{ID: p.ID, Incarnation: p.Incarnation, Address: "z:1"}}), false)
		contacts, _, _ := b.Dial(raft.Time(i))
		require.LessOrEqual(t, len(contacts), 4*raft.MembersMax+4)
	}
}

// An advertised address belongs to one incarnation. Other incarnations are not dialed at that address.
func TestContacts_AddressesAreByPeer(t *testing.T) {
	seen := func(word, address string) raft.Sighting {
		return raft.Sighting{Peer: peerNamed(word), Address: address}
	}
	b := bookOf(t, true)
	b.Config(0, configOf("a b c c2"), true)
	b.Memory(raft.Sightings{Seen: []raft.Sighting{seen("c", "moved:1"), seen("b", "b:1"), seen("c2", ""), seen("x", "x:9")}})
	b.dials(1, "b c@moved:1,c:1 c2")
	_, changed, _ := b.Dial(1)
	require.False(t, changed)
	b.Memory(raft.Sightings{Seen: []raft.Sighting{seen("c", "again:1")}})
	_, changed, _ = b.Dial(2)
	assert.True(t, changed)
	b.dials(2, "b c@again:1,c:1 c2")

	b.called(3, "d")
	b.Memory(raft.Sightings{Seen: []raft.Sighting{seen("d", "d:7")}})
	b.dials(3, "b c c2 d@d:7,d:1")
}

// The disk of a was emptied, and a runs at its old address. If a dialed its former incarnation there, a would reach itself.
func TestContacts_AMemberDoesNotDialItself(t *testing.T) {
	b := bookOf(t, true)
	here := raft.NewConfiguration([]raft.Member{{ID: "a", Incarnation: 1, Address: "a:1"}, {ID: "a", Incarnation: 2, Address: "a:1"}})
	b.Config(0, here, true)
	b.dials(1, "")
	b.Memory(raft.Sightings{Seen: []raft.Sighting{{Peer: peerNamed("a2"), Address: "elsewhere:1"}}})
	b.dials(2, "a2@elsewhere:1")

	moved := book{pipeline.NewContacts(peerNamed("a"), "a2:1", contactTimeout), t} // to where its other self was until then
	moved.Begin()
	moved.Memory(raft.Sightings{Seen: []raft.Sighting{{Peer: peerNamed("a2"), Address: "a2:1"}}})
	moved.Config(0, configOf("a a2"), true)
	moved.dials(1, "a2@a:1") // they may have changed places
	moved.Config(1, raft.NewConfiguration([]raft.Member{{ID: "a", Incarnation: 1}, {ID: "a", Incarnation: 2, Address: "corrected:1"}}), true)
	moved.dials(2, "a2@corrected:1")
}

// A joining member is dialed only once. Until a configuration names it, it is dialed by its address. Afterwards it is dialed
// as the named member, and the connection stays open.
func TestContacts_AnInvitedMemberIsDialedOnce(t *testing.T) {
	b := bookOf(t, true)
	b.Config(0, configOf("a b"), true)
	b.Invite(raft.Member{ID: "d", Address: "d:1"})
	b.dials(1, "b d0@d:1")
	b.called(2, "d")
	b.dials(2, "b d0@d:1")
	b.Config(3, configOf("a b d"), false)
	b.dials(3, "b d")
	b.Uninvite("d")
	b.dials(4, "b d")

	b.Invite(raft.Member{ID: "e", Address: "e:1"})
	b.Config(5, configOf("a b d"), true)
	b.dials(5, "b d e0@e:1")
	b.Uninvite("e")
	b.dials(6, "b d")
}

// Two members with the same id call a member that has no term yet. Each of the two is dialed at its own address.
func TestContacts_BeforeTheBootstrapACallerIsDialedWhereItIs(t *testing.T) {
	b := bookOf(t, false)
	b.called(1, "d")
	b.called(1, "d2")
	b.Memory(raft.Sightings{Seen: []raft.Sighting{{Peer: peerNamed("d"), Address: "d:7"}, {Peer: peerNamed("d2"), Address: "d2:7"}}})
	b.dials(2, "d@d:7,d:1 d2@d2:7,d2:1")
}

// The list of initial members names no incarnations. Before the bootstrap, a member may move, or may be started elsewhere.
func TestContacts_BeforeTheBootstrapTheLastStartUnderAnIDCounts(t *testing.T) {
	b := bookOf(t, false)
	b.Config(1, configOf("a0 b0 c0"), false)
	b.dials(1, "b0 c0")
	b.Memory(raft.Sightings{Seen: []raft.Sighting{{Peer: peerNamed("b"), Address: "before:1"}, {Peer: peerNamed("b2"), Address: "b2:1"}}})
	b.dials(2, "b0@b2:1,b0:1 c0")
	b.Config(3, configOf("a b c"), false) // entry 1, which named the disk that was emptied since
	b.dials(3, "b0@b2:1,b:1 c0@c:1")
	b.Config(3, configOf("a0 b0 c0"), false)
	b.Invite(raft.Member{ID: "d", Address: "d0:1"})
	b.Memory(raft.Sightings{Seen: []raft.Sighting{{Peer: peerNamed("d"), Address: "before:1"}}})
	b.dials(3, "b0 c0 d0")
}

// A list of initial members may leave addresses open. Such a member is dialed once it has said where it is reached.
func TestContacts_AMemberWithoutAnAddressIsDialedWhereItSaysItIs(t *testing.T) {
	b := bookOf(t, false)
	list := configOf("a0 b0 c0")
	list.Members[0].Address, list.Members[1].Address = "", ""
	b.Config(0, list, false)
	b.dials(1, "c0")
	b.Memory(raft.Sightings{Seen: []raft.Sighting{{Peer: peerNamed("b"), Address: "b:7"}, {Peer: peerNamed("c")}}})
	b.dials(2, "b0@b:7 c0")
	b.Config(3, configOf("a b c"), true)
	b.Begin()
	b.dials(3, "b@b:7,b:1 c")
}
