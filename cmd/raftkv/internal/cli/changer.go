package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
)

// Times of a membership change.
const (
	lookPause     = 200 * time.Millisecond
	postTimeout   = 15 * time.Second // limit of one request; a server ends it earlier
	progressPause = 5 * time.Second  // before a line is repeated with new figures
)

// changer makes one membership change.
type changer struct {
	*client.Lookout
	change    admin.Change
	goal      goal
	first     admin.Members // the members before the change
	told      narrator
	continues bool // the change was accepted, and this command does not wait until it is done
}

func newChanger(urls []string, change admin.Change, goal goal, progress io.Writer) *changer {
	return &changer{Lookout: client.NewLookout(urls), change: change, goal: goal, told: narrator{out: progress}}
}

// run makes the change and waits until the change is done, for at most the timeout. It returns the sentence that reports the
// outcome.
func (c *changer) run(ctx context.Context, timeout time.Duration) (string, error) {
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var err error
	if c.first, err = c.Look(ctx); err != nil {
		return "", &exitError{exitUnanswered, err}
	}
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { c.narrate(watching) })
	defer watch.Wait()
	defer stop()
	return c.repeat(ctx)
}

// narrate reports progress until the context ends.
func (c *changer) narrate(ctx context.Context) {
	for wait(ctx, lookPause) == nil {
		_, _ = c.lookAndTell(ctx) // the next look may succeed
	}
}

// lookAndTell is Look, and reports progress.
func (c *changer) lookAndTell(ctx context.Context) (admin.Members, error) {
	now, err := c.Look(ctx)
	if err == nil {
		c.told.tell(now, time.Now())
	}
	return now, err
}

// repeat asks for the change until the change is done or refused. If a request ends first, repeat waits until no change is
// running. If the goal is not reached by then, repeat asks again.
func (c *changer) repeat(ctx context.Context) (string, error) {
	for {
		reply, err := c.post(ctx)
		var mine *admin.Error
		switch {
		case err == nil && reply.Done:
			return c.readBack(ctx, reply.Members)
		case err == nil || api.CodeOf(err) == admin.OutcomeUnknown:
		case errors.As(err, &mine) && api.Transient(mine) && !(c.change.Cancel && mine.Code == admin.ChangePending):
		default:
			return c.refused(ctx, err)
		}
		now, ended := c.settle(ctx, err)
		switch {
		case ended != nil:
			return "", ended
		case c.first.Leads() && c.goal.reached(c.first, now): // without a leader, the first view may have been out of date
			return done("done", now), nil
		case reply.Change != nil && now.Index > reply.Index: // the change that this request began has ended
			return "", api.Errorf(admin.GivenUp, "run the same command again: it continues from there",
				"the change that began with configuration %d was given up by configuration %d", reply.Index, now.Index)
		}
	}
}

// post asks for the change once.
func (c *changer) post(ctx context.Context) (admin.Changed, error) {
	shared := client.NewHTTP(1, postTimeout)
	defer shared.CloseIdleConnections()
	trying, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	type outcome struct {
		admin.Changed
		pending error
	}
	said, err := client.Try(trying, c.Clients(shared), func(cl *client.Client) (outcome, error) {
		reply, err := cl.ChangeMembers(trying, c.change)
		if api.CodeOf(err) == admin.ChangePending { // another server would say the same
			return outcome{pending: err}, nil
		}
		return outcome{Changed: reply}, err
	})
	return said.Changed, errors.Join(said.pending, err)
}

// readBack returns the outcome of a change that a server reports as done. It checks that the cluster has the members that the
// command asked for.
func (c *changer) readBack(ctx context.Context, now admin.Members) (string, error) {
	if !now.Committed || now.Change != nil { // another change has followed
		var ended error
		if now, ended = c.settle(ctx, nil); ended != nil {
			return "", ended
		}
	}
	if !c.goal.reached(c.first, now) {
		return "", &exitError{exitUnknown, fmt.Errorf("%s says that the change was made, but configuration %d does not show it: "+
			"run raftkv members to see the present one", now.ID, now.Index)}
	}
	return done("done", now), nil
}

// refused returns the outcome of a change that was refused.
func (c *changer) refused(ctx context.Context, err error) (string, error) {
	now, failed := c.Look(ctx)
	if failed != nil || c.isOld(now) || !c.goal.refusedAsDone(err, now) {
		return "", err
	}
	line := done("nothing to do", now)
	if runs := (*admin.Error)(nil); errors.As(err, &runs) && runs.Code == admin.MemberRuns {
		line += "; " + strings.TrimPrefix(runs.Message, "the members were not changed: ")
	}
	return line, nil
}

// settle waits until no change is running. If the time runs out before that, it returns the error that ends the command.
func (c *changer) settle(ctx context.Context, latest error) (admin.Members, error) {
	for {
		if err := wait(ctx, lookPause); err != nil {
			return admin.Members{}, c.outOfTime(ctx, latest)
		}
		now, err := c.lookAndTell(ctx)
		switch {
		case ctx.Err() != nil: // the error of the look would only repeat that
			return admin.Members{}, c.outOfTime(ctx, latest)
		case err != nil:
			latest = err
		case now.Change == nil && now.Committed && !c.isOld(now):
			return now, nil
		}
	}
}

// isOld reports whether a view is older than the view before the change. Such an old view cannot show the change.
func (c *changer) isOld(now admin.Members) bool {
	return c.first.Committed && now.Index < c.first.Index
}

// outOfTime returns the error of a command that ran out of time or was interrupted.
func (c *changer) outOfTime(ctx context.Context, latest error) error {
	if c.Last().Change == nil && !api.Uncertain(latest) && latest != nil {
		return latest
	}
	outcome := "the change continues"
	if c.Last().Change == nil {
		outcome = "it is not known whether the change has begun"
	}
	why := "--timeout ended"
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
		why = cause.Error()
	}
	return &exitError{exitUnknown, fmt.Errorf(
		"%s, and %s: raftkv members shows it; run the same command to wait for it again", why, outcome)}
}

// done returns the sentence about the members at the end.
func done(how string, m admin.Members) string {
	s := fmt.Sprintf("%s: configuration %d, voters %s", how, m.Index, api.List(m.Voters()))
	if m.Tolerance != "" {
		s += "; " + tolerance(m.Tolerance)
	}
	return s
}

// wait waits for the pause. If the context ends first, it returns the context's error.
func wait(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}
