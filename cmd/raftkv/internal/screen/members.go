package screen

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
)

const (
	changeTimeout = 30 * time.Second // after which the demo says that the change continues
	changePause   = 100 * time.Millisecond
)

// servers returns the URLs of all nodes.
func (d *demo) servers() (urls []string) {
	for _, n := range d.cluster.Nodes {
		urls = append(urls, n.URL())
	}
	return urls
}

// announce publishes the nodes to the other commands. Calls must not overlap.
func (d *demo) announce() error {
	place := client.Place{PID: os.Getpid()}
	for _, n := range d.cluster.Nodes {
		if !d.removed[n.ID] {
			place.Servers = append(place.Servers, n.URL())
		}
	}
	return place.Save()
}

// mayChange reports whether the nodes may be changed now. If they may not, it informs the user. d.mu is held.
func (d *demo) mayChange() bool {
	switch {
	case d.waits():
	case !d.hasQuorum(): // they could not agree on a change
		d.screen.say("nobody leads: %s", d.quorum())
	case d.changing:
		d.screen.say("wait for the last membership change to end")
	default:
		return true
	}
	return false
}

// addMember starts a new member, or a member that was removed earlier. The member joins by itself.
func (d *demo) addMember(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.mayChange() {
		return
	}
	var n local.Node
	if i := slices.IndexFunc(d.cluster.Nodes, func(n local.Node) bool { return d.removed[n.ID] }); i >= 0 {
		n = d.cluster.Nodes[i]
		d.cluster.Kill(n.ID) // it may not have heard of its removal yet
		if err := os.RemoveAll(d.cluster.DataDir(n.ID)); err != nil {
			d.screen.say("%v", err)
			return
		}
	} else if spare, err := d.cluster.Spare(); err == nil {
		n = spare
	} else {
		d.screen.say("no member can be added: %v", err)
		return
	}
	d.join(ctx, n, "joins", "joined")
}

// loseDisk empties the disk of a follower and restarts it. The follower asks for its former place.
func (d *demo) loseDisk(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.mayChange() {
		return
	}
	now, err := d.members(ctx)
	if err != nil {
		d.screen.say("no disk is emptied now: %v", err)
		return
	}
	i := slices.IndexFunc(d.cluster.Nodes, func(n local.Node) bool {
		return n.ID != now.Leader && slices.Contains(now.Voters(), n.ID) && d.cluster.Process(n.ID).Running()
	})
	if i < 0 || len(now.Voters()) < 3 || now.Change != nil {
		d.screen.say("no disk is emptied now: that requires three voters, and no change under way")
		return
	}
	d.empty(ctx, d.cluster.Nodes[i])
}

// empty empties the disk of a member and restarts it. d.mu is held.
func (d *demo) empty(ctx context.Context, n local.Node) {
	d.cluster.Kill(n.ID)
	if err := os.RemoveAll(d.cluster.DataDir(n.ID)); err != nil {
		d.screen.say("%v", err)
		return
	}
	d.join(ctx, n, "has lost its disk, and asks for its former place", "was replaced")
}

// join starts a node that joins, and watches the node until it votes. d.mu is held.
func (d *demo) join(ctx context.Context, n local.Node, begins, ended string) {
	before, _ := d.members(ctx)
	err := d.cluster.Join(n.ID)
	if err != nil {
		d.screen.say("%v", err)
		return
	}
	delete(d.removed, n.ID)
	delete(d.down, n.ID)
	d.screen.say("%s %s", n.ID, begins)
	d.reannounce()
	d.follow(ctx, n.ID+" "+ended, func(now admin.Members) bool {
		of := now.Of(n.ID)
		return now.Change == nil && len(of) == 1 && of[0].Kind == admin.StandingVoter &&
			!slices.ContainsFunc(before.Of(n.ID), func(m admin.ClusterMember) bool { return m.Incarnation == of[0].Incarnation })
	})
}

// removeMember removes the last voter of the list.
func (d *demo) removeMember(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.mayChange() {
		return
	}
	now, err := d.members(ctx)
	voters := now.Voters()
	if err != nil || len(voters) < 2 {
		d.screen.say("no member is removed now: there is one voter, or no leader")
		return
	}
	d.remove(ctx, voters[len(voters)-1])
}

// remove removes a member. d.mu is held.
func (d *demo) remove(ctx context.Context, id string) {
	d.removed[id], d.down[id] = true, true // its process ends
	d.reannounce()
	l := client.NewLookout(d.servers())
	d.screen.say("%s is removed", id)
	d.watches.Go(func() {
		defer l.Close()
		asking, cancel := context.WithTimeout(ctx, changeTimeout)
		defer cancel()
		shared := client.NewHTTP(1, changeTimeout)
		defer shared.CloseIdleConnections()
		_, err := client.Try(asking, l.Clients(shared), func(c *client.Client) (admin.Changed, error) {
			return c.ChangeMembers(asking, admin.Change{Remove: []admin.Peer{{ID: id}}})
		})
		if err == nil || ctx.Err() != nil || api.CodeOf(err) == admin.UnknownMember {
			return
		}
		d.screen.say("%s may not be removed: %v", id, err)
		if !api.Uncertain(err) {
			d.stays(id)
		}
	})
	d.follow(ctx, id+" was removed", func(now admin.Members) bool { return now.Change == nil && len(now.Of(id)) == 0 })
}

// stays notes that a member was not removed, because the next added member must not take the data of this member.
func (d *demo) stays(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.removed, id)
	delete(d.down, id)
	d.reannounce()
}

// reannounce calls announce after the nodes have changed. d.mu is held.
func (d *demo) reannounce() {
	if err := d.announce(); err != nil {
		d.screen.say("the other commands know only the former nodes: %v", err)
	}
}

// members returns the members as the best informed node reports them.
func (d *demo) members(ctx context.Context) (admin.Members, error) {
	l := client.NewLookout(d.servers())
	defer l.Close()
	return l.Look(ctx)
}

// follow watches a change, and says so when its goal is reached. d.mu is held.
func (d *demo) follow(ctx context.Context, what string, reached func(admin.Members) bool) {
	d.changing = true
	began := time.Now()
	l := client.NewLookout(d.servers())
	d.watches.Go(func() {
		defer l.Close()
		limited, cancel := context.WithTimeout(ctx, changeTimeout)
		defer cancel()
		for {
			now, err := l.Look(limited)
			if err == nil && reached(now) {
				d.screen.say("%s after %d ms: voters %s", what, time.Since(began).Milliseconds(), api.List(now.Voters()))
				break
			}
			select {
			case <-time.After(changePause):
				continue
			case <-limited.Done():
			}
			if ctx.Err() == nil {
				d.screen.say("%s? not yet; raftkv members shows the progress", what)
			}
			break
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.changing = false
	})
}
