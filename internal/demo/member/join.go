package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/hashicorp/go-hclog"
)

// Times of joining a cluster.
const (
	joinPause   = time.Second      // maximum pause between two looks
	joinHaste   = joinPause >> 4   // pause after the first look; it doubles. A leader notices an empty disk within a few of these.
	joinTimeout = 15 * time.Second // of one request
	// joinSilence is the least time without a sign of life after which this member may replace another one. The leader must
	// not have heard the other member for this time. Otherwise a copied command line could replace a running member.
	joinSilence = 10 * time.Second
)

// joiner asks the leader of a running cluster to let this member join. It stores no state. After a restart of the process, it
// finds out which steps are left.
type joiner struct {
	self        admin.NewMember
	incarnation string
	cluster     string // name of the cluster
	seen        *client.Lookout
	log         hclog.Logger

	asked  bool                 // this joiner has asked for a change, so the remains of that change are its own
	member bool                 // this incarnation was seen to be a member
	silent map[string]time.Time // start of the leader's silence about an incarnation of this id; absent: the leader hears it
	said   map[string]string    // the latest reason of each log line
}

// newJoiner returns the joiner of a member. The options must be valid.
func newJoiner(o Options, incarnation raft.Incarnation, log hclog.Logger) *joiner {
	self, _ := o.self()
	return &joiner{self: self, incarnation: incarnation.String(), cluster: o.Cluster, seen: client.NewLookout(o.Join), log: log}
}

// run repeats the request until this member belongs to the cluster, or the context ends.
func (j *joiner) run(ctx context.Context) {
	defer j.seen.Close()
	for pause := joinHaste; !j.step(ctx, time.Now()); pause = min(2*pause, joinPause) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// step looks at the members and asks for the next change. It reports whether this member belongs to the cluster.
func (j *joiner) step(ctx context.Context, at time.Time) (done bool) {
	now, err := j.seen.Look(ctx)
	if err != nil {
		j.say("waits for a server of the cluster", err.Error())
		return false
	}
	change, reason := j.decide(now, at)
	switch {
	case j.member && change == nil:
		j.log.Info("this member belongs to the cluster", "configuration", now.Index)
		if j.isLearner(now) {
			j.log.Warn("this member is a learner, although it was to vote: a change was given up, unless somebody demoted it",
				"remedy", "raftkv members add "+j.self.ID)
		}
		return true
	case change == nil:
		j.say("waits to join the cluster", reason)
		return false
	}
	j.say("asks to join the cluster", reason)
	j.asked = true
	shared := client.NewHTTP(1, joinTimeout)
	defer shared.CloseIdleConnections()
	asking, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	if _, err := client.Try(asking, j.seen.Clients(shared), func(c *client.Client) (admin.Changed, error) {
		return c.ChangeMembers(asking, *change)
	}); err != nil && ctx.Err() == nil {
		j.say("cannot join yet", err.Error())
	}
	return false
}

// isLearner reports whether this member is a learner although it should vote, and no running change makes it a voter.
func (j *joiner) isLearner(now admin.Members) bool {
	return j.self.Kind != learner && now.Change == nil && slices.ContainsFunc(now.Members, func(m admin.ClusterMember) bool {
		return m.Incarnation == j.incarnation && m.Kind == learner
	})
}

// say logs a line, unless the reason equals the reason of the last line.
func (j *joiner) say(what, reason string) {
	if j.said[what] == reason {
		return
	}
	if j.said == nil {
		j.said = map[string]string{}
	}
	j.said[what] = reason
	j.log.Info(what, "reason", reason)
}

// decide returns the change that makes this member join, and the reason for this decision. The change is nil if the member
// has to wait, or if it has joined. The change takes effect only if the members are still those that the joiner has seen.
func (j *joiner) decide(now admin.Members, at time.Time) (change *admin.Change, reason string) {
	switch {
	case now.Cluster != j.cluster:
		return nil, fmt.Sprintf("%s is of cluster %q, not of %q: correct --join or --cluster", now.ID, now.Cluster, j.cluster)
	case now.Index == 0 && now.ID == j.self.ID:
		return nil, "only this member itself answers: give --join the URLs of other servers"
	case now.Index == 0:
		return nil, fmt.Sprintf("%s answers, but knows no cluster yet", now.ID)
	case now.Leader == "":
		return nil, fmt.Sprintf("%s answers, but knows no leader", now.ID)
	case !now.Leads():
		return nil, fmt.Sprintf("%s answers, and %s, which leads, does not", now.ID, now.Leader)
	case !now.Committed:
		return nil, fmt.Sprintf("configuration %d is not committed yet", now.Index)
	}
	if change, reason = j.ask(now, at); change != nil {
		change.IfIndex = now.Index
	}
	return change, reason
}

// ask is like decide, for a configuration that a leader reports as committed.
func (j *joiner) ask(now admin.Members, at time.Time) (change *admin.Change, reason string) {
	var others []admin.ClusterMember // incarnations with the same id
	var mine *admin.ClusterMember
	for _, m := range now.Of(j.self.ID) {
		if m.Incarnation == j.incarnation {
			mine = &m
		} else {
			others = append(others, m)
		}
	}
	// Somebody may have demoted this member to a learner on purpose. But if this joiner has asked for a vote, or another disk
	// has the id, this member is a learner because a change was given up.
	waits := mine != nil && mine.Kind == learner && j.self.Kind != learner && (j.asked || len(others) > 0)
	switch {
	case mine != nil && !waits:
		j.member = true
		return nil, ""
	case now.Change != nil:
		return nil, "another membership change is running"
	case len(others) > 0:
		return j.replace(others, at)
	case waits:
		return &admin.Change{Promote: []admin.Peer{{ID: j.self.ID}}}, "it is a learner, but is to vote"
	}
	return &admin.Change{Add: []admin.NewMember{j.self}}, fmt.Sprintf("configuration %d does not name it", now.Index)
}

// learner is the kind of a member without a vote, in JSON.
var learner = raft.Learner.String()

// replace returns the change that replaces the lost member with this member's id. At most two members have the id. If a
// second disk began to replace the lost member and was then lost, too, the change first removes the second disk.
func (j *joiner) replace(of []admin.ClusterMember, at time.Time) (change *admin.Change, reason string) {
	old, runs := of[0], false
	for _, m := range of {
		if m.Kind == raft.Voter.String() {
			old = m
		}
		runs = !j.lost(m, at) || runs
	}
	if runs {
		return nil, fmt.Sprintf("%s is a member already, at %s. If its disk was lost, this member replaces it when the leader has not "+
			"heard it for %v, or at once by: raftkv members replace %s. Otherwise choose another --id", j.self.ID, old.Address, joinSilence, j.self.ID)
	}
	for _, m := range of {
		if m.Incarnation != old.Incarnation {
			return &admin.Change{Remove: []admin.Peer{{ID: m.ID, Incarnation: m.Incarnation}}},
				fmt.Sprintf("the disk %s, which was to replace %s, is lost, too", m.Incarnation, m.ID)
		}
	}
	by := admin.NewMember{ID: j.self.ID, Address: j.self.Address, URL: j.self.URL}
	return &admin.Change{Replace: []admin.Replacement{{Old: admin.Peer{ID: old.ID, Incarnation: old.Incarnation}, New: by}}},
		fmt.Sprintf("the member %s at %s is lost", old.ID, old.Address)
}

// lost reports whether the disk of the member is lost, as far as the leader knows. It also returns true if the leader has not
// heard the member for joinSilence.
func (j *joiner) lost(m admin.ClusterMember, at time.Time) bool {
	if j.silent == nil {
		j.silent = map[string]time.Time{}
	}
	since, silent := j.silent[m.Incarnation]
	if heard := m.LastContactMS >= 0 && m.LastContactMS < float64(joinSilence.Milliseconds()); heard {
		delete(j.silent, m.Incarnation)
		return m.Replace
	}
	if !silent {
		since = at
		j.silent[m.Incarnation] = at
	}
	return m.Replace || at.Sub(since) >= joinSilence
}

// serves waits until this member is ready. A member becomes ready only after a leader has answered it. A ready member
// therefore belongs to the cluster. If the joiner reaches only a follower, the servers may not show this to the joiner.
func serves(ctx context.Context, ready func(context.Context) error) bool {
	for {
		err := ready(ctx)
		if err == nil || !errors.Is(err, node.ErrWiped) { // a wiped member may still join
			return err == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(lookPause):
		}
	}
}

// spent reports whether a store can no longer be used after the error err. Such a store may be set aside. A member ended with
// err, or did not start because of it. A store that contradicts others is never set aside, because it may be the last witness
// of acknowledged writes. If wasMember is true, the member belonged to the cluster in this run. If such a member was removed
// meanwhile, it ends.
func spent(err error, wasMember bool) bool {
	var older *raft.StaleImageError
	var damaged *raft.CorruptError
	var unfinished *storage.UnfinishedAsideError // an interrupted call is completed
	return errors.As(err, &older) || errors.As(err, &damaged) || errors.As(err, &unfinished) || errors.Is(err, raft.ErrRemoved) && !wasMember
}

// WithRemedy adds a remedy to the error if the member cannot start again with its store.
func WithRemedy(err error) error {
	if !spent(err, false) {
		return err
	}
	return fmt.Errorf("%w\nraftkv serve --join URL sets this store aside without deleting anything, and lets the member join again with an empty one", err)
}

// setAside sets the store aside once a leader of the cluster has answered. Without this wait, a power failure that damages
// the stores of a majority would make all of these members set their stores aside.
func setAside(ctx context.Context, o Options, why error, log hclog.Logger) error {
	j := joiner{cluster: o.Cluster, seen: client.NewLookout(o.Join), log: log}
	defer j.seen.Close()
	for {
		now, err := j.seen.Look(ctx)
		if err == nil && now.Leads() && now.Cluster == o.Cluster {
			break
		}
		j.say("the store cannot be used, and will be set aside once a leader answers", errors.Join(why, err).Error())
		select {
		case <-ctx.Done():
			return why
		case <-time.After(joinPause):
		}
	}
	// This order matters. If the process ends between the two steps, the next start repeats both.
	if err := forgetAddresses(o.Data); err != nil {
		log.Warn("the member keeps the addresses of its former store; --advertise and --url change them", "error", err)
	}
	aside, err := storage.SetAside(o.Data)
	if err != nil {
		return errors.Join(why, fmt.Errorf("--data: %w", err))
	}
	log.Warn("the store was set aside, and this member joins on an empty one", "reason", why, "kept", aside)
	return nil
}
