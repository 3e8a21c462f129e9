package cli

import (
	"context"

	"fmt"
	"io"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/spf13/cobra"
)

// drainCommand is the command that prepares a voter for its stop, and takes that back.
func drainCommand() changeCommand {
	var undo bool
	var priority int
	return changeCommand{
		use: "drain ID[.INCARNATION]", short: "Prepare the stop of a voter",
		long: `drain sets the priority of a voter to 0. If it leads, it transfers its leadership to another voter. drain then waits until
the voter can be stopped: another member leads, and a majority of all voters, without this one, holds what the cluster has
acknowledged. --no-wait does not wait for that. After the voter is back, --undo sets its priority to --priority, or to 1.
drain prints the priority that it had. As any first priority, drain ends the way back to releases before v0.5.0.`,
		example: "  raftkv members drain n3\n  raftkv members drain n3 --undo --priority 5     # it had priority 5 before",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().BoolVar(&undo, "undo", false, "end the drain: the voter may lead again")
			cmd.Flags().IntVar(&priority, "priority", priorityDefault, "with --undo: the priority that the voter gets")
		},
		args: func(cmd *cobra.Command, args []string) error {
			given := cmd.Flags().Changed("priority")
			if _, err := raft.PriorityOf(priority); given && (!undo || err != nil || priority == 0) {
				return fmt.Errorf("--priority %d: it needs --undo, and takes a whole number from 1 to %d", priority, raft.PriorityMax)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		run: func(cmd *cobra.Command, f *changeFlags, args []string) error {
			peer := peerOf(args[0])
			if undo {
				return runChange(cmd, f, prioritize(peer, priority), preferred(peer, priority))
			}
			return runDrain(cmd, f, peer)
		},
	}
}

func prioritize(peer admin.Peer, priority int) admin.Change {
	return admin.Change{Update: []admin.Update{{Peer: peer, Priority: &priority}}}
}

func runDrain(cmd *cobra.Command, f *changeFlags, peer admin.Peer) error {
	r := f.bounded()
	urls, err := r.found()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), r.timeout)
	defer cancel()
	d := &drain{Lookout: client.NewLookout(urls), peer: peer, out: cmd.ErrOrStderr()}
	defer d.Close()
	first, err := d.Look(ctx)
	if err != nil {
		return &exitError{exitUnanswered, err}
	}
	was := roleOf(first, peer.ID)
	if peer.Incarnation != "" {
		was = first.Member(peer)
	}
	voters := first.Voters()
	switch {
	case was.Standing == admin.StandingLearner:
		return sayDone(cmd.OutOrStdout(), "%s has no vote, so it can be stopped at any time", peer.ID)
	case was.Kind == admin.StandingVoter && len(voters)-1 < quorum(len(voters)):
		return api.Errorf(admin.QuorumLoss, "add another voter first; raftkv members priority "+peer.ID+" 0 only moves the leadership",
			"%s cannot be stopped: %d of the voters %s are needed", peer.ID, quorum(len(voters)), api.List(voters))
	}
	if err := runChange(cmd, f, prioritize(peer, 0), preferred(peer, 0)); err != nil || f.noWait {
		return err
	}
	leader, err := d.wait(ctx)
	if err != nil {
		return err
	}
	return sayDone(cmd.OutOrStdout(), "%s can be stopped: %s leads, and a majority of the voters without %s holds what is acknowledged; it had priority %d; "+
		"once it is back: %s", peer.ID, leader, peer.ID, priority(was), undoing(peer.ID, priority(was)))
}

// undoing returns the command that gives a member its priority back.
func undoing(id string, was int) string {
	switch was {
	case 0:
		return "it stays a standby"
	case priorityDefault:
		return fmt.Sprintf("raftkv members drain %s --undo", id)
	}
	return fmt.Sprintf("raftkv members drain %s --undo --priority %d", id, was)
}

func quorum(voters int) int { return voters/2 + 1 }

// drain waits until a voter can be stopped.
type drain struct {
	*client.Lookout
	peer   admin.Peer
	out    io.Writer
	leader string // the leader that was asked last, and what it had committed when it was asked first
	target uint64
	why    string // the last line of progress
	saidAt time.Time
	ledAt  time.Time // when the voter was first seen to lead, or was last asked to transfer its leadership; zero: it does not lead
}

// wait returns the leader once the voter can be stopped.
func (d *drain) wait(ctx context.Context) (leader string, err error) {
	shared := client.NewHTTP(1, statusTimeout)
	defer shared.CloseIdleConnections()
	for {
		why := "no server answers"
		if _, err := d.Look(ctx); err == nil {
			var s api.Status
			server := d.Clients(shared)[0] // the best informed one
			if s, err = server.Status(ctx); err == nil {
				if why = d.missing(s); why == "" {
					return s.ID, nil
				}
				d.transfer(ctx, server, s)
			}
		}
		if now := time.Now(); ctx.Err() == nil && (why != d.why || now.Sub(d.saidAt) >= progressPause) {
			d.why, d.saidAt = why, now
			_, _ = fmt.Fprintf(d.out, "not yet: %s\n", why) // a lost line of progress is no failure
		}
		if wait(ctx, lookPause) != nil {
			return "", &exitError{exitUnknown, fmt.Errorf("%s has priority 0, but do not stop it yet: %s; run the same command to wait for it again",
				d.peer.ID, d.why)}
		}
	}
}

// transferPause is how long drain waits for a leader without priority to transfer its leadership by itself.
const transferPause = 2 * time.Second

// transfer asks the voter to transfer its leadership if it does not do so by itself, as with --without priorities.
func (d *drain) transfer(ctx context.Context, server *client.Client, s api.Status) {
	switch {
	case s.Role != "leader" || !d.is(s.ID, s.Incarnation):
		d.ledAt = time.Time{}
	case d.ledAt.IsZero():
		d.ledAt = time.Now()
	case time.Since(d.ledAt) >= transferPause:
		d.ledAt = time.Now()
		_, _ = server.Transfer(ctx, "") // the next look shows what became of it
	}
}

func (d *drain) is(id, incarnation string) bool {
	return isMember(d.peer, admin.ClusterMember{ID: id, Incarnation: incarnation})
}

// missing says why the voter cannot be stopped yet. It returns "" if it can.
func (d *drain) missing(s api.Status) string {
	switch {
	case s.Role != "leader":
		return "no leader answers"
	case d.is(s.ID, s.Incarnation):
		return s.ID + " still leads"
	}
	if d.leader != s.ID {
		d.leader, d.target = s.ID, s.Commit
	}
	return s.MissingWithout(d.peer, d.target)
}
