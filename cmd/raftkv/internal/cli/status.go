package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/usage"
	"github.com/spf13/cobra"
)

func newStatus(r *reach) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the health of each node",
		Long: `status asks every server and prints a line for each, which ends with "ok" or with what is wrong with it.

Exit codes: 0 healthy; 2 bad usage; 6 degraded: the cluster serves, but a member is down, cannot be reached, or does
not count; 7 not serving: no leader, or its writes do not finish; 8 no server that knows the cluster could be asked, or the servers
belong to different clusters.`,
		Example: "  raftkv status\n  raftkv status --json\n  raftkv status >/dev/null || page-somebody",
		Args:    usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			urls, err := r.found()
			if err != nil {
				return err
			}
			reports := askAll(cmd.Context(), r, urls)
			show := printTable
			if asJSON {
				show = printJSON
			}
			if err := show(cmd.OutOrStdout(), reports); err != nil {
				return err
			}
			return health(reports)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print everything that the servers report, a JSON object for each server")
	return cmd
}

// report holds the status of a server, or the reason why there is no status.
type report struct {
	URL     string `json:"url"`
	Problem string `json:"problem,omitempty"` // what is wrong with this member, as it or the leader reports; empty: nothing
	*api.Status
	failure error  // why Status is nil
	unready bool   // it leads but does not serve, and Problem says why
	called  string // the id of a silent server, as the others report it; "" if they do not know it
}

// name returns the name of the member for use in sentences.
func (r report) name() string {
	if r.Status != nil {
		return r.ID
	}
	return cmp.Or(r.called, r.URL)
}

// health returns nil if the cluster serves and neither the servers nor the leader report a problem.
func health(reports []report) error {
	view := bestView(reports)
	var problems []string
	var failures []error
	for _, r := range reports {
		if r.Problem != "" {
			problems = append(problems, r.name()+": "+r.Problem)
		}
		if r.failure != nil {
			failures = append(failures, r.failure)
		}
	}
	one, other := twoClusters(reports)
	switch {
	case other >= 0:
		return &exitError{exitUnanswered, &client.OtherClusterError{
			URLs: [2]string{reports[one].URL, reports[other].URL}, IDs: [2]string{reports[one].Cluster, reports[other].Cluster},
		}}
	case view == nil:
		return &exitError{exitUnanswered, fmt.Errorf("no server answers: %w", errors.Join(failures...))}
	case rank(view) == knowsNothing: // the others may serve
		return &exitError{exitUnanswered, fmt.Errorf("no server that answers knows the cluster: %s", strings.Join(problems, "; "))}
	case slices.ContainsFunc(reports, func(r report) bool { return r.Status == view && r.unready }):
		return &exitError{exitNotServing, fmt.Errorf("the cluster does not serve: %s", strings.Join(problems, "; "))}
	case rank(view) == knowsNoLeader || view.Role == "leader" && (view.DiskStalled || view.FSMHangs || view.NoRoom != ""):
		return &exitError{exitNotServing, fmt.Errorf("the cluster does not serve: %s says: %s",
			view.ID, cmp.Or(view.LeaderReason, "no leader is known"))}
	}
	for _, m := range view.Members {
		if why := problemOf(m); why != "" && m.ID != view.ID && !slices.ContainsFunc(reports, said(m.ID)) {
			problems = append(problems, m.ID+": "+why)
		}
	}
	if len(problems) > 0 {
		return &exitError{exitDegraded, fmt.Errorf("degraded: %s", strings.Join(problems, "; "))}
	}
	return nil
}

// twoClusters returns the indices of two servers that belong to different clusters; -1: there are none. A server that knows no
// cluster yet does not count.
func twoClusters(reports []report) (one, other int) {
	one = slices.IndexFunc(reports, func(r report) bool { return r.Status != nil && r.Cluster != "" })
	other = slices.IndexFunc(reports, func(r report) bool { return r.Status != nil && r.Cluster != "" && r.Cluster != reports[one].Cluster })
	return one, other
}

// said returns a function that reports whether a report names a problem of this member.
func said(id string) func(report) bool {
	return func(r report) bool { return r.Problem != "" && r.name() == id }
}

// bestView returns the best informed status of the cluster; nil if no server answers.
func bestView(reports []report) (view *api.Status) {
	for _, r := range reports {
		if r.Status != nil && (view == nil || tellsMore(r.Status, view)) {
			view = r.Status
		}
	}
	return view
}

// tellsMore reports whether a is better informed about the cluster than b: a knows of a later leader, or a is that leader.
func tellsMore(a, b *api.Status) bool {
	return cmp.Or(cmp.Compare(min(rank(a), follows), min(rank(b), follows)), cmp.Compare(a.Term, b.Term), cmp.Compare(rank(a), rank(b))) > 0
}

// How well informed a member is about the cluster.
const (
	knowsNothing  = iota // it has ended, or its disk was emptied
	knowsNoLeader        // it waits for one
	follows
	leads
)

func rank(s *api.Status) int {
	switch {
	case s.Error != "" || s.Wiped:
		return knowsNothing
	case s.Role == "leader":
		return leads
	case s.Leader != "":
		return follows
	}
	return knowsNoLeader
}

// problemOf returns what is wrong with a member according to a server. Earlier releases report only the connection.
func problemOf(m admin.MemberStatus) string {
	switch {
	case m.Problem == "" && !m.Connected:
		return m.ConnectionErr
	case m.Replace:
		return m.Problem + "; " + api.ReplaceHint(m.ID)
	}
	return m.Problem
}

// ownProblem returns why a member that answers does not serve.
func ownProblem(s api.Status) string {
	for _, m := range s.Members {
		if m.ID == s.ID && m.Problem != "" {
			return problemOf(m)
		}
	}
	switch {
	case s.Error != "":
		return "it has ended: " + s.Error
	case s.Wiped:
		return "its disk was emptied"
	case s.Role != "leader" && s.Leader == "":
		return cmp.Or(s.LeaderReason, "it knows no leader")
	}
	return ""
}

// statusTimeout bounds the wait for a server that is frozen or cut off. Other servers answer status requests at once.
const statusTimeout = 2 * time.Second

// askAll asks all servers at the same time, so that their answers are consistent.
func askAll(ctx context.Context, r *reach, urls []string) []report {
	shared := client.NewHTTP(1, min(r.timeout, statusTimeout))
	defer shared.CloseIdleConnections()
	reports := make([]report, len(urls))
	var all sync.WaitGroup
	for i, url := range urls {
		all.Go(func() {
			server := client.New(url, shared)
			status, err := server.Status(ctx)
			if err != nil {
				reports[i] = report{URL: url, Problem: "does not answer: " + messageOf(err), failure: err}
				return
			}
			reports[i] = report{URL: url, Problem: ownProblem(status), Status: &status}
			reports[i].askReady(ctx, server)
		})
	}
	all.Wait()
	for i := range reports {
		reports[i].called = calledBy(reports, reports[i].URL)
	}
	addProblems(reports)
	return reports
}

// askReady asks a leader that reports no problem whether its reads and writes finish. They may not finish, because the quorum
// may be lost or may have full disks.
func (r *report) askReady(ctx context.Context, server *client.Client) {
	if r.Problem != "" || rank(r.Status) != leads {
		return
	}
	var e *admin.Error
	if err := server.Ready(ctx); errors.As(err, &e) && e.Code == admin.NotReady {
		r.Problem, r.unready = e.Message, true
	}
}

// addProblems adds to each report the problem that only other servers see. For example, a member lags too far, or it does not
// count. A server of another cluster than the first one has that problem.
func addProblems(reports []report) {
	one, _ := twoClusters(reports)
	for i, r := range reports {
		if r.Status != nil && r.Cluster != "" && r.Cluster != reports[one].Cluster {
			reports[i].Problem = "it belongs to another cluster than " + reports[one].name()
		}
	}
	view := bestView(reports)
	if view == nil || rank(view) < follows {
		return
	}
	for i, r := range reports {
		if r.Status == view && r.Problem == "" {
			reports[i].Problem = view.SlowElection // all servers see it, and one line is enough
		}
		if r.Status == nil || r.Problem != "" || r.ID == view.ID {
			continue
		}
		for _, m := range view.Members {
			if why := problemOf(m); m.ID == r.ID && why != "" {
				reports[i].Problem = view.ID + " says: " + why
			}
		}
	}
}

// messageOf returns the message of an error without its code and remedy.
func messageOf(err error) string {
	var e *admin.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

// calledBy returns the id of the member with this URL, as the servers that answer report it.
func calledBy(reports []report, url string) string {
	for _, r := range reports {
		if r.Status == nil {
			continue
		}
		for _, m := range r.Members {
			if m.URL == url {
				return m.ID
			}
		}
	}
	return ""
}

func printJSON(out io.Writer, reports []report) error {
	lines := json.NewEncoder(out)
	for _, r := range reports {
		if err := lines.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// printTable prints a line for each server. Below that, it prints the sentences of the leader, or of the first server that
// answers.
func printTable(out io.Writer, reports []report) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var last *api.Status
	for _, r := range reports {
		if r.Status == nil {
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", cmp.Or(r.called, "-"), r.URL, r.Problem) // Flush returns the error
			continue
		}
		role := cmp.Or(standingOf(r), r.Role)
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\tterm %d\tcommit %d\tapplied %d\t%d keys\t%s\n", // as above
			r.ID, r.URL, role, r.Term, r.Commit, r.Applied, r.Keys, cmp.Or(r.Problem, "ok"))
		if last == nil || r.Role == "leader" {
			last = r.Status
		}
	}
	if err := table.Flush(); err != nil || last == nil {
		return err
	}
	if err := printSnapshots(out, reports); err != nil {
		return err
	}
	return printSentences(out, *last, reports)
}

// standingOf returns the role of a server that is not a voter, or that will not stay one; "" for other voters.
func standingOf(r report) string {
	if r.Wiped {
		return "emptied disk"
	}
	for _, m := range r.Members {
		if m.ID == r.ID && m.Incarnation == r.Incarnation {
			return m.Standing
		}
	}
	return ""
}

// succession says for how long the leader has led, who would take over from it, and who would not for a while.
func succession(s api.Status) (sentences []string) {
	if s.Leader != "" && s.InOfficeMS > 0 {
		office := fmt.Sprintf("%s has led for %v", s.Leader, milliseconds(s.InOfficeMS).Round(time.Second))
		if len(s.Successors) > 0 {
			office += "; its successors, in this order: " + api.List(s.Successors)
		}
		sentences = append(sentences, office)
	}
	if s.Caretaker {
		sentences = append(sentences, s.ID+" leads as a caretaker: its priority is 0, and it transfers its leadership once another voter can lead")
	}
	for _, m := range s.Members {
		if m.BackoffMS > 0 && (m.Priority == nil || *m.Priority > 0) { // else it changes nothing
			sentences = append(sentences, fmt.Sprintf("%s has lost its leadership lately: it counts as one with priority 0 for another %v",
				m.ID, milliseconds(m.BackoffMS).Round(time.Second)))
		}
	}
	return sentences
}

// printSentences prints the sentences of a status. It also prints the problems of members that no line above shows.
func printSentences(out io.Writer, status api.Status, reports []report) error {
	sentences := append([]string{prefixed("the voters change, ", status.Phase), tolerance(status.Tolerance), status.LeaderReason, status.Error},
		status.Missing...)
	sentences = append(sentences, succession(status)...)
	if status.Snapshot.None != "" {
		sentences = append(sentences, status.ID+": "+status.Snapshot.None)
	}
	for _, m := range status.Members {
		why := problemOf(m)
		above := func(r report) bool { return r.Status != nil && r.ID == m.ID && strings.Contains(r.Problem, why) }
		if status.Bootstrapped && why != "" && !slices.ContainsFunc(reports, above) { // else Missing says it
			sentences = append(sentences, m.ID+": "+why)
		}
	}
	for _, m := range status.Members {
		for _, d := range m.Differs {
			sentences = append(sentences, fmt.Sprintf("%s says of %s: %s", status.ID, m.ID, d))
		}
	}
	servers := []*api.Status{&status}
	for _, r := range reports {
		if r.Status != nil {
			servers = append(servers, r.Status)
		}
	}
	for _, s := range servers {
		for _, why := range []string{s.SmallDisk, s.Certificate} {
			if why != "" {
				sentences = append(sentences, s.ID+": "+why)
			}
		}
	}
	sentences = append(sentences, mixture(servers...))
	for i, sentence := range sentences {
		said := func(earlier string) bool { return strings.Contains(earlier, sentence) }
		if slices.ContainsFunc(sentences[:i], said) || sentence == "" {
			continue
		}
		if _, err := fmt.Fprintln(out, sentence); err != nil {
			return err
		}
	}
	return nil
}
