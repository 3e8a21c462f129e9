package fuzzy

import (
	"strings"

	"github.com/coxswain/raft"
)

// heardScenarios show what a member does that was told of a cluster, and lists with open addresses. The sources are rules that
// the model check of docs/decisions/0045 breaks.
var heardScenarios = []scenario{
	{name: "told-between-answers", voters: 3, play: toldBetweenAnswers,
		about: "a bootstrapper that is told of a cluster counts no answer that is under way, until it is restarted"},
	{name: "told-founder-is-probed", voters: 3, play: toldFounder,
		about: "a bootstrapper waits for a founder that was told of a cluster, and says of which, until that founder is restarted"},
	{name: "told-by-a-later-member", voters: 2, shape: oneJoins, play: toldByALaterMember, source: "model check, founding, toldanswers",
		about: "after both founders have lost their disks, one of them hears from a later member of the cluster, so that no other begins"},
	{name: "told-before-entry-1", voters: 2, play: toldBeforeEntryOne, source: "model check, founding, refusehold",
		about: "a member that has answered the probe takes entry 1, whatever it was told meanwhile"},
	{name: "told-while-it-holds", voters: 2, play: toldWhileItHolds, source: "model check, founding, told0",
		about: "a bootstrapper that holds its own entry 1 goes on, whatever it is told, and may probe again"},
	{name: "told-before-its-list", voters: 3, play: toldBeforeItsList,
		about: "a member that was told of a cluster before it is given its list neither probes nor bootstraps alone"},
	{name: "lists-with-open-addresses", voters: 3, play: openAddresses,
		about: "members whose lists leave all addresses open are bootstrapped with those of the bootstrapper's list"},
}

// tell tells a member of a cluster that does not exist, or no longer.
func (d *director) tell(n *node, of raft.ClusterID, by *node) {
	n.post(raft.Heard{Cluster: of, From: by.id})
	d.settle()
}

// says reports whether the status of a member contains a text about the bootstrap.
func (n *node) says(text string) bool {
	return strings.Contains(strings.Join(n.status.Missing, "\n"), text)
}

func toldBetweenAnswers(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	answers := d.hold(these(c), these(a), raft.BootstrapProbeReply{})
	d.start(a, b, c)
	d.until("c has answered", answers.some)
	d.tell(a, raft.ClusterID{7}, c)
	d.always(1, "a bootstraps nothing", func() bool { return a.last() == 0 }) // its earlier probes arrive meanwhile
	probes := d.record(these(a), nil, raft.BootstrapProbe{})
	answers.release()
	d.always(10, "a bootstraps nothing, and asks nobody", func() bool { return a.last() == 0 && !probes.some() })
	d.check("a says why", func() bool { return a.says("this member was told by c of cluster 07") })
	d.crash(a)
	d.start(a)
	d.expect(20, "a, anew, leads", a.leads)
}

func toldFounder(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.start(b, c)
	d.tell(b, raft.ClusterID{7}, c)
	d.start(a)
	d.always(10, "nobody takes part in a bootstrap", func() bool { return a.last() == 0 && b.last() == 0 && c.last() == 0 })
	d.check("a says why, and nothing else", func() bool {
		return len(a.status.Missing) == 1 && a.says("b was told by c of cluster 07") && a.says("restart it")
	})
	d.crash(b)
	d.start(b)
	d.expect(20, "a leads", a.leads)
}

func toldByALaterMember(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	joins := raft.Member{ID: c.id, Incarnation: c.peer().Incarnation, Address: c.place, Kind: raft.Learner}
	d.change(a, raft.Change{Add: []raft.Member{joins}})
	cluster := a.status.Cluster
	d.until("c is in it", func() bool { return c.status.Cluster == cluster })
	d.wipe(a, b)
	a.forgetHands()
	b.forgetHands()
	d.start(b)
	d.tell(b, cluster, c)
	d.start(a)
	d.always(20, "no other cluster begins", func() bool { return a.last() == 0 && b.last() == 0 })
	d.check("a says why", func() bool { return a.says("b was told by c of cluster " + cluster.String()) })
}

func toldBeforeEntryOne(d *director) {
	a, b := d.c.nodes[0], d.c.nodes[1]
	first := d.hold(these(a), these(b), raft.BootstrapRequest{})
	d.start(a, b)
	d.until("b has answered, and a holds entry 1", func() bool { return first.some() && a.holdsOne() })
	d.tell(b, raft.ClusterID{7}, a)
	d.check("b was told", func() bool { return b.status.Heard.From != "" })
	first.release()
	d.check("b has taken entry 1", func() bool { return b.last() == 1 && b.status.Heard.From == "" })
	d.expect(5, "a leads", a.leads)
}

func toldWhileItHolds(d *director) {
	a, b := d.c.nodes[0], d.c.nodes[1]
	first := d.hold(these(a), these(b), raft.BootstrapRequest{})
	d.start(a, b)
	d.until("a holds entry 1", func() bool { return a.holdsOne() && first.some() })
	d.tell(a, raft.ClusterID{7}, b)
	d.wipe(b)
	first.stop()
	d.start(b)
	d.tell(a, raft.ClusterID{7}, b)
	d.expect(25, "a has probed again, and leads", a.leads)
	d.written(a)
}

func toldBeforeItsList(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	all, alone := d.c.initial, raft.NewConfiguration(d.c.initial.Members[:1])
	for _, n := range d.c.nodes {
		n.initial = raft.Configuration{}
	}
	d.start(a, b, c)
	d.tell(a, raft.ClusterID{}, c)
	a.post(raft.InitialGiven{Initial: alone})
	d.always(10, "a bootstraps nothing", func() bool { return a.last() == 0 })
	d.check("a says why", func() bool { return a.says("this member was told by c of a cluster:") })
	a.initial, b.initial, c.initial = all, all, all
	d.crash(a, b, c)
	d.start(a, b, c)
	d.expect(20, "a leads", a.leads)
}

func openAddresses(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.c.profile.Node.OpenLists = 1_000_000
	d.start(b, c)
	d.check("they know no address", func() bool {
		return !strings.Contains(b.status.Config.ListText()+c.status.Config.ListText(), "=")
	})
	d.start(a)
	d.expect(20, "a leads", a.leads)
	d.written(a)
	d.expect(5, "all have the addresses of its list", func() bool {
		return b.status.Config.Equal(a.status.Config) && c.status.Config.Equal(a.status.Config) && strings.Contains(b.status.Config.ListText(), "c=c:1")
	})
}
