package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/hashicorp/go-hclog"
)

// Times of joining a cluster.
const (
	joinPause   = time.Second      // between two looks, at most
	joinHaste   = joinPause >> 4   // after the first look; it doubles. A leader notices an empty disk within a few of these.
	joinTimeout = 15 * time.Second // of one request
	// joinSilence is how long the leader must not have heard the member whose place this one wants. A copied command line must
	// not drive out a member that runs.
	joinSilence = 10 * time.Second
)

// joiner asks the leader of a running cluster to let this member join. It has no state of its own: when the process is
// started again, it finds out what is left to do.
type joiner struct {
	self        api.NewMember
	incarnation string
	cluster     string // the name
	seen        *client.Lookout
	log         hclog.Logger

	asked  bool                 // for a change: what is left of it is this joiner's
	member bool                 // this incarnation was seen to be a member
	silent map[string]time.Time // since when the leader has not heard an incarnation with this id; absent: it hears it
	said   map[string]string    // the latest reason of each line of the log
}

// newJoiner returns the joiner of a member, whose options are valid.
func newJoiner(o Options, incarnation raft.Incarnation, log hclog.Logger) *joiner {
	self, _ := o.self()
	return &joiner{self: self, incarnation: incarnation.String(), cluster: o.Cluster, seen: client.NewLookout(o.Join), log: log}
}

// run asks until this member is one of the cluster, or the context ends.
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

// step looks at the members and asks for what is left to do. It reports whether this member is one.
func (j *joiner) step(ctx context.Context, at time.Time) (done bool) {
	now, err := j.seen.Look(ctx)
	if err != nil {
		j.say("waits for a server of the cluster", err.Error())
		return false
	}
	change, reason := j.decide(now, at)
	switch {
	case j.member && change == nil:
		j.log.Info("this member is one of the cluster", "configuration", now.Index)
		if j.isLearner(now) {
			j.log.Warn("this member is a learner, and was to vote: unless somebody has made it one, a change was given up",
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
	if _, err := client.Try(asking, j.seen.Clients(shared), func(c *client.Client) (api.Changed, error) {
		return c.ChangeMembers(asking, *change)
	}); err != nil && ctx.Err() == nil {
		j.say("cannot join yet", err.Error())
	}
	return false
}

// isLearner reports whether this member, which is to vote, is a learner, and no running change makes it a voter.
func (j *joiner) isLearner(now api.Members) bool {
	return j.self.Kind != learner && now.Change == nil && slices.ContainsFunc(now.Members, func(m api.ClusterMember) bool {
		return m.Incarnation == j.incarnation && m.Kind == learner
	})
}

// say logs a line unless its reason is the same as last time.
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

// decide returns the change that makes this member one of the cluster; nil if it waits, for the reason, or is one. The
// change is made only if the members are still those that were looked at.
func (j *joiner) decide(now api.Members, at time.Time) (change *api.Change, reason string) {
	switch {
	case now.Cluster != j.cluster:
		return nil, fmt.Sprintf("%s is of cluster %q, not of %q: correct --join or --cluster", now.ID, now.Cluster, j.cluster)
	case now.Index == 0 && now.ID == j.self.ID:
		return nil, "only this member itself answers: --join takes the URLs of other servers"
	case now.Index == 0:
		return nil, fmt.Sprintf("%s answers, and knows no cluster yet", now.ID)
	case now.Leader == "":
		return nil, fmt.Sprintf("%s answers, and knows no leader", now.ID)
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

// ask is decide for a configuration that a leader says is committed.
func (j *joiner) ask(now api.Members, at time.Time) (change *api.Change, reason string) {
	var others []api.ClusterMember // incarnations with the same id
	var mine *api.ClusterMember
	for _, m := range now.Of(j.self.ID) {
		if m.Incarnation == j.incarnation {
			mine = &m
		} else {
			others = append(others, m)
		}
	}
	// Somebody may have made a voter a learner. If this joiner has asked for a vote, or another disk has the id, it is what a
	// change that was given up has left.
	waits := mine != nil && mine.Kind == learner && j.self.Kind != learner && (j.asked || len(others) > 0)
	switch {
	case mine != nil && !waits:
		j.member = true
		return nil, ""
	case now.Change != nil:
		return nil, "a change of the members is running"
	case len(others) > 0:
		return j.replace(others, at)
	case waits:
		return &api.Change{Promote: []api.Peer{{ID: j.self.ID}}}, "it is a learner, and is to vote"
	}
	return &api.Change{Add: []api.NewMember{j.self}}, fmt.Sprintf("configuration %d does not name it", now.Index)
}

// learner is the kind of a member without a vote, in JSON.
var learner = raft.Learner.String()

// replace returns the change that puts this member in the place of the one that has its id, if that one is lost. An id
// stands twice at most: if another disk began to take that place, and was lost too, that one goes first.
func (j *joiner) replace(of []api.ClusterMember, at time.Time) (change *api.Change, reason string) {
	old, runs := of[0], false
	for _, m := range of {
		if m.Kind == raft.Voter.String() {
			old = m
		}
		runs = !j.lost(m, at) || runs
	}
	if runs {
		return nil, fmt.Sprintf("%s is a member already, at %s: if its disk was lost, this one takes its place when the leader has not "+
			"heard it for %v, or at once by: raftkv members replace %s; else choose another --id", j.self.ID, old.Address, joinSilence, j.self.ID)
	}
	for _, m := range of {
		if m.Incarnation != old.Incarnation {
			return &api.Change{Remove: []api.Peer{{ID: m.ID, Incarnation: m.Incarnation}}},
				fmt.Sprintf("the disk %s, which was to take the place of %s, is lost, too", m.Incarnation, m.ID)
		}
	}
	by := api.NewMember{ID: j.self.ID, Address: j.self.Address, URL: j.self.URL}
	return &api.Change{Replace: []api.Replacement{{Old: api.Peer{ID: old.ID, Incarnation: old.Incarnation}, New: by}}},
		fmt.Sprintf("the member %s at %s is lost", old.ID, old.Address)
}

// lost reports whether the leader knows the disk of the member to be lost, or has not heard the member for long.
func (j *joiner) lost(m api.ClusterMember, at time.Time) bool {
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

// serves waits until the member is ready, which only one of the cluster becomes: a leader has answered it. The joiner may not
// learn that, if it reaches no more than the URL of a follower.
func serves(ctx context.Context, ready func(context.Context) error) bool {
	for {
		err := ready(ctx)
		if err == nil || !errors.Is(err, node.ErrWiped) { // a wiped member may join meanwhile
			return err == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(lookPause):
		}
	}
}

// spent reports whether the store with which a member ended, or did not start, is of no use for it, so that it may be set
// aside to join anew. A store that contradicts others is not among them: it may be the last witness of what was
// acknowledged. wasMember says that the member was one of the cluster in this run: then it was removed meanwhile, and ends.
func spent(err error, wasMember bool) bool {
	var older *raft.StaleImageError
	var damaged *raft.CorruptError
	var unfinished *storage.UnfinishedAsideError // what an interrupted call has begun goes on
	return errors.As(err, &older) || errors.As(err, &damaged) || errors.As(err, &unfinished) || errors.Is(err, raft.ErrRemoved) && !wasMember
}

// WithRemedy adds what raftkv can do about a store with which a member cannot start again.
func WithRemedy(err error) error {
	if !spent(err, false) {
		return err
	}
	return fmt.Errorf("%w\nraftkv serve --join URL sets this store aside, deletes nothing, and lets the member join again with an empty one", err)
}

// setAside sets the store aside once a leader of the cluster has answered: otherwise a power failure that damages the
// stores of a majority would make all of them set theirs aside.
func setAside(ctx context.Context, o Options, why error, log hclog.Logger) error {
	j := joiner{cluster: o.Cluster, seen: client.NewLookout(o.Join), log: log}
	defer j.seen.Close()
	for {
		now, err := j.seen.Look(ctx)
		if err == nil && now.Leads() && now.Cluster == o.Cluster {
			break
		}
		j.say("the store cannot be used, and is set aside once a leader answers", errors.Join(why, err).Error())
		select {
		case <-ctx.Done():
			return why
		case <-time.After(joinPause):
		}
	}
	// If the process ends in between, the next one repeats both. The other way round, it would not.
	if err := forgetAddresses(o.Data); err != nil {
		log.Warn("the member keeps to addresses of its former store; --advertise and --url say others", "error", err)
	}
	aside, err := storage.SetAside(o.Data)
	if err != nil {
		return errors.Join(why, fmt.Errorf("--data: %w", err))
	}
	log.Warn("the store was set aside, and this member joins on an empty one", "reason", why, "kept", aside)
	return nil
}
