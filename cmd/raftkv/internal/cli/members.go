package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/usage"
	"github.com/spf13/cobra"
)

const membersHelp = `members shows the members. Its subcommands change them while the cluster serves, as often as you like. To add a member,
start "raftkv serve" without --peers on an empty directory first. The new member receives the cluster's data before it gets
a vote. The commands wait until the change is done, and print its progress on standard error. A change outlives the command
and the leader: to wait for it again, or to make sure that it was made, run the same command again. With --no-wait, a
command waits only until the change is accepted; an accepted change may still be given up.

After a replacement that was given up, two members have the same id. raftkv members shows each with its incarnation, as in
n3.8c504d9cfcb417cf, and the other commands accept that name.

Exit codes: 0 done, or nothing to do, or accepted with --no-wait; 1 refused or given up, and no voter has changed; 2 bad
usage; 4 --if-index no longer holds; 5 --timeout ended, and the change continues or may have begun; 8 no server could be asked.
The code is also 5 if a command cannot write its output: then the change is done or, with --no-wait, accepted.`

// changeFlags are the flags that all changes accept.
type changeFlags struct {
	reach
	ifIndex  uint64
	despite  []string
	patience time.Duration
	noWait   bool
}

// bounded returns the servers, and the time to wait for the change.
func (f *changeFlags) bounded() reach {
	r := f.reach
	if r.timeout == 0 {
		r.timeout = time.Duration(1<<63 - 1) // wait until the change is done
	}
	return r
}

func newMembers() *cobra.Command {
	var f changeFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "members",
		Short: "Show the members, add, remove or replace one",
		Long:  membersHelp,
		Example: `  raftkv members
  raftkv members add n4 10.0.0.4:5001 http://10.0.0.4:4001
  raftkv members replace n3                  # its disk was lost, and it runs again on an empty one
  raftkv members priority n2 5               # n2 should lead
  raftkv members drain n3                    # before it is stopped
  raftkv members lease 100ms                 # faster reads; see docs/reads.md first
  raftkv members remove n4`,
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return showMembers(cmd, &f.reach, asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer of the best informed server as JSON")
	flags := cmd.PersistentFlags()
	flags.StringSliceVar(&f.urls, "server", nil, "base URLs of servers to ask; default: the demo that runs on this machine")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Minute, "time to wait for the change, which continues afterwards")
	for _, c := range changeCommands() {
		cmd.AddCommand(c.command(&f))
	}
	return cmd
}

// showMembers prints the members as the best informed server sees them.
func showMembers(cmd *cobra.Command, r *reach, asJSON bool) error {
	urls, err := r.found()
	if err != nil {
		return err
	}
	l := client.NewLookout(urls)
	defer l.Close()
	now, err := l.Look(cmd.Context())
	if err != nil {
		return &exitError{exitUnanswered, err}
	}
	if asJSON {
		lines := json.NewEncoder(cmd.OutOrStdout())
		return lines.Encode(now)
	}
	return printMembers(cmd.OutOrStdout(), now)
}

// changeCommand is a subcommand of members that changes them.
type changeCommand struct {
	use, short, long, example string
	args                      cobra.PositionalArgs
	flags                     func(*cobra.Command)
	// build returns the change to request, and the goal that shows that the change is done.
	build func(args []string) (admin.Change, goal)
	run   func(cmd *cobra.Command, f *changeFlags, args []string) error // if not nil, instead of build: what the command does
}

func (c changeCommand) command(f *changeFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: c.use, Short: c.short, Long: c.long, Example: c.example, Args: usage.Args(c.args),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.run != nil {
				return c.run(cmd, f, args)
			}
			change, goal := c.build(args)
			return runChange(cmd, f, change, goal)
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&f.ifIndex, "if-index", 0, "only if the configuration has this index, which raftkv members shows")
	flags.StringSliceVar(&f.despite, "despite", nil, "voters that may be silent, although the others would not be a majority")
	flags.DurationVar(&f.patience, "patience", time.Minute, "give up if a new voter makes no progress for this long")
	flags.BoolVar(&f.noWait, "no-wait", false, "end as soon as the change is accepted; it continues by itself")
	if c.flags != nil {
		c.flags(cmd)
	}
	return cmd
}

// runChange changes the members and waits until the change is done.
func runChange(cmd *cobra.Command, f *changeFlags, change admin.Change, goal goal) error {
	timeout := f.bounded()
	if f.patience <= 0 {
		return fmt.Errorf("--patience %v: use more than 0; %w", f.patience, usage.Err)
	}
	urls, err := timeout.found()
	if err != nil {
		return err
	}
	change.IfIndex, change.Despite = f.ifIndex, f.despite
	if cmd.Flags().Changed("patience") {
		change.Patience = f.patience.String()
	}
	c := newChanger(urls, change, goal, cmd.ErrOrStderr())
	ask := c.run
	if f.noWait {
		ask = c.accept
	}
	done, err := ask(cmd.Context(), timeout.timeout)
	if err != nil {
		return addsWhere(change, err)
	}
	if c.continues {
		return sayOutcome(cmd.OutOrStdout(), "the change is accepted, and may still be given up", done)
	}
	return sayDone(cmd.OutOrStdout(), "%s", done)
}

// addsWhere adds a remedy to the error if the member that is to get a vote does not exist.
func addsWhere(change admin.Change, err error) error {
	var unknown *admin.Error
	if len(change.Promote) == 1 && change.Promote[0].Incarnation == "" && api.CodeOf(err) == admin.UnknownMember && errors.As(err, &unknown) {
		return api.Errorf(unknown.Code, "to add a new one: raftkv members add "+change.Promote[0].ID+" ADDRESS URL", "%s", unknown.Message)
	}
	return err
}

func changeCommands() []changeCommand {
	return append(joiningCommands(), changeCommand{
		use: "remove ID[.INCARNATION]", short: "Remove a member",
		long: `remove removes the member; its process ends with exit code 9 when it learns of that. A leader transfers its leadership
first. The removed member's store cannot be used again: to let it join again, empty its directory and add it.`,
		example: "  raftkv members remove n4\n  raftkv members remove n3.8c504d9cfcb417cf     # of two members n3, the one with this incarnation",
		args:    cobra.ExactArgs(1),
		build: func(args []string) (admin.Change, goal) {
			peer := peerOf(args[0])
			return admin.Change{Remove: []admin.Peer{peer}}, gone(peer)
		},
	}, changeCommand{
		use: "demote ID[.INCARNATION]", short: "Make a voter a learner",
		long:    "demote takes the vote from a member, which still receives the log. raftkv members add ID gives it back.",
		example: "  raftkv members demote n3",
		args:    cobra.ExactArgs(1),
		build: func(args []string) (admin.Change, goal) {
			peer := peerOf(args[0])
			return admin.Change{Demote: []admin.Peer{peer}}, demoted(peer)
		},
	}, changeCommand{
		use: "address ID[.INCARNATION] ADDRESS [URL] | ID[.INCARNATION]=ADDRESS[=URL]...", short: "Change the address of a member",
		long: `address changes where the other members dial a member, and its URL for clients. A member that is started at another address
asks for this by itself. Use the command for a member that does not know its address, behind a gateway say, or before a move:
existing connections stay until they break. Several members, written as in --peers, change together, so that two may swap
their addresses. If two members have the same id, after a replacement that was given up, the id alone means the voter.`,
		example: "  raftkv members address n2 10.0.1.2:5001 http://10.0.1.2:4001\n" +
			"  raftkv members address n2=10.0.1.3:5001 n3=10.0.1.2:5001     # they have swapped addresses\n" +
			"  raftkv members address n3.8c504d9cfcb417cf 10.0.1.4:5001     # of two members n3, the one with this incarnation",
		args:  placesOnly,
		build: moved,
	}, changeCommand{
		use: "priority ID[.INCARNATION] PRIORITY", short: "Set the priority of a voter",
		long: `priority says where the leader should be. PRIORITY is a number from 0 to 100; it is 1 unless it was set. Of the voters that
could take over, those with the highest priority come first. A voter with priority 0 is a standby: it votes and stores, and
leads only if no other voter can. At least one voter must have a priority above 0. A learner has none. The first priority
other than 1 ends the way back to releases before v0.5.0, and is refused while a member runs one.`,
		example: "  raftkv members priority n3 5     # n3 comes first\n  raftkv members priority n2 0     # n2 is a standby",
		args:    priorityOnly,
		build: func(args []string) (admin.Change, goal) {
			peer := peerOf(args[0])
			number, _ := strconv.Atoi(args[1]) // priorityOnly has checked it
			return prioritize(peer, number), preferred(peer, number)
		},
	}, drainCommand(), changeCommand{
		use: "lease DURATION|off", short: "Let the leader answer reads without asking the others",
		long: `lease says for how long the members promise their leader not to elect another one. While it has a lease, it answers
"raftkv get --consistency lease" without a round of messages. DURATION is at most 99 % of the election timeout, and two
thirds of it or more, so that it is renewed before it ends; off ends leases. Read docs/reads.md first: it says what leases
need of the clocks. The first lease ends the way back to releases before v0.8.0, and is refused while a member runs one.`,
		example: "  raftkv members lease 100ms\n  raftkv members lease off",
		args:    leaseOnly,
		build: func(args []string) (admin.Change, goal) {
			d := leaseOf(args[0]) // leaseOnly has checked it
			return admin.Change{LeaseDuration: d.String()}, leased(d)
		},
	}, changeCommand{
		use: "cancel", short: "End a change that waits for members to catch up",
		long: `cancel ends a change that still waits for new members: they stay learners, and no voter changes. A change of the voters
that has begun cannot be canceled; it is done as soon as a majority of the former voters and a majority of the new ones answer.`,
		example: "  raftkv members cancel",
		args:    cobra.NoArgs,
		build: func([]string) (admin.Change, goal) {
			return admin.Change{Cancel: true}, goal{
				reached: func(admin.Members, admin.Members) bool { return true }, already: func(admin.Members) bool { return true },
			}
		},
	})
}

// joiningCommands are the commands with which a member joins.
func joiningCommands() []changeCommand {
	return []changeCommand{{
		use: "add ID [ADDRESS URL] | ID.INCARNATION", short: "Add a voter",
		long: `add adds a member. The other members reach it at ADDRESS, clients at URL. It votes once it has caught up.
Without ADDRESS and URL, add makes a learner a voter.`,
		example: "  raftkv members add n4 10.0.0.4:5001 http://10.0.0.4:4001\n  raftkv members add n4     # n4 is a learner",
		args:    either(1, 3),
		build: func(args []string) (admin.Change, goal) {
			if len(args) == 1 {
				peer := peerOf(args[0])
				return admin.Change{Promote: []admin.Peer{peer}}, voting(peer, "", "")
			}
			return admin.Change{Add: []admin.NewMember{{ID: args[0], Address: args[1], URL: args[2]}}},
				voting(admin.Peer{ID: args[0]}, args[1], args[2])
		},
	}, {
		use: "learner ID ADDRESS URL", short: "Add a member without a vote",
		long:    "learner adds a member that receives the log and serves stale reads, and does not vote. raftkv members add ID makes it a voter.",
		example: "  raftkv members learner n4 10.0.0.4:5001 http://10.0.0.4:4001",
		args:    cobra.ExactArgs(3),
		build: func(args []string) (admin.Change, goal) {
			return admin.Change{Add: []admin.NewMember{{ID: args[0], Address: args[1], URL: args[2], Kind: "learner"}}},
				state(admin.Peer{ID: args[0]}, "learner", args[1], args[2])
		},
	}, {
		use: "replace ID[.INCARNATION] [WITH-ID] [ADDRESS URL]", short: "Replace a member by another machine, or by an empty disk",
		long: `replace lets a new member take the place of one that is lost. Without WITH-ID the new one has the same id: the member
runs again on an empty directory. Without ADDRESS and URL it runs where the old one did; after WITH-ID they may be left out
only if that is a learner. Until the new one has caught up, the old one still counts as a voter.`,
		example: `  raftkv members replace n3                                                  # on an empty disk
  raftkv members replace n3 10.0.0.9:5001 http://10.0.0.9:4001               # on another machine
  raftkv members replace n3 n4 10.0.0.4:5001 http://10.0.0.4:4001            # by another member`,
		args: cobra.RangeArgs(1, 4),
		build: func(args []string) (admin.Change, goal) {
			old := peerOf(args[0])
			by := admin.NewMember{ID: old.ID}
			if len(args)%2 == 0 {
				by.ID = args[1]
			}
			if len(args) > 2 {
				by.Address, by.URL = args[len(args)-2], args[len(args)-1]
			}
			return admin.Change{Replace: []admin.Replacement{{Old: old, New: by}}}, replaced(old, by)
		},
	}}
}

// incarnated matches an id with an incarnation. The command raftkv members shows this form if two members have the same id.
var incarnated = regexp.MustCompile(`^(.+)\.([0-9a-f]{16})$`)

// peerOf parses an id, or an id with an incarnation.
func peerOf(text string) admin.Peer {
	if parts := incarnated.FindStringSubmatch(text); parts != nil {
		return admin.Peer{ID: parts[1], Incarnation: parts[2]}
	}
	return admin.Peer{ID: text}
}

// placesOnly accepts the place of one member in two or three arguments, or places of several members in one argument each.
func placesOnly(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || !strings.Contains(args[0], "=") {
		return cobra.RangeArgs(2, 3)(cmd, args)
	}
	for _, arg := range args {
		if place := strings.SplitN(arg, "=", 3); len(place) < 2 || slices.Contains(place, "") {
			return fmt.Errorf("%q is not ID=ADDRESS or ID=ADDRESS=URL, as in n2=10.0.1.2:5001", arg)
		}
	}
	return nil
}

// priorityOnly accepts a member and a priority.
func priorityOnly(cmd *cobra.Command, args []string) error {
	if err := cobra.ExactArgs(2)(cmd, args); err != nil {
		return err
	}
	number, err := strconv.Atoi(args[1])
	if err == nil {
		_, err = raft.PriorityOf(number)
	}
	if err != nil {
		return fmt.Errorf("the priority is %q; it takes a whole number from 0, never, to %d", args[1], raft.PriorityMax)
	}
	return nil
}

// leaseOnly accepts how long leases last.
func leaseOnly(cmd *cobra.Command, args []string) error {
	if err := cobra.ExactArgs(1)(cmd, args); err != nil {
		return err
	}
	if args[0] != leasesOff && leaseOf(args[0]) <= 0 {
		return fmt.Errorf("the lease is %q; it takes a time with its unit, as in 100ms, or off", args[0])
	}
	return nil
}

const leasesOff = "off"

// leaseOf returns how long leases last; 0 stands for off, and for a text that leaseOnly refuses.
func leaseOf(text string) time.Duration {
	d, _ := time.ParseDuration(text)
	return d
}

// moved returns the change that gives one or more members other addresses, all together.
func moved(args []string) (change admin.Change, all goal) {
	places := [][]string{args}
	if strings.Contains(args[0], "=") {
		places = nil
		for _, arg := range args {
			places = append(places, strings.SplitN(arg, "=", 3))
		}
	}
	var goals []goal
	for _, place := range places {
		peer, url := peerOf(place[0]), ""
		update := admin.Update{Peer: peer, Address: &place[1]}
		if len(place) == 3 {
			url, update.URL = place[2], &place[2]
		}
		change.Update = append(change.Update, update)
		goals = append(goals, located(peer, place[1], url))
	}
	return change, allOf(goals)
}

// either accepts one of two numbers of arguments.
func either(few, many int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == few || len(args) == many {
			return nil
		}
		return fmt.Errorf("accepts %d or %d args, received %s", few, many, strconv.Itoa(len(args)))
	}
}
