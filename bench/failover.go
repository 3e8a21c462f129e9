package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/coxswain/raft/internal/distribution"
)

// newFailover returns the command that measures the distribution of failovers. The cells of run have too few kills for one.
func newFailover() *cobra.Command {
	var f failovers
	var who, dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "failover",
		Short: "Compare how soon a write is acknowledged after kills of the leader",
		Long: `failover kills the leader's process again and again, and measures the time until the next leader acknowledges a write.
The contestants take turns, each with its default election timeouts and with 150 to 300 ms, which are our defaults.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			chosen, err := regexp.Compile(who)
			if err != nil {
				return fmt.Errorf("--contestants: %w", err)
			}
			if f.kills < 1 {
				return fmt.Errorf("--kills %d: it takes 1 or more", f.kills)
			}
			if f.dir, err = os.MkdirTemp(dir, "coxswain-bench-"); err != nil {
				return err
			}
			f.choose(chosen)
			err = f.run(cmd.Context(), cmd.ErrOrStderr())
			return errors.Join(err, f.print(cmd.OutOrStdout(), asJSON), os.RemoveAll(f.dir))
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.kills, "kills", 50, "kills of each contestant with each setting")
	flags.IntVar(&f.replicas, "replicas", 3, "members of a cluster")
	flags.StringVar(&who, "contestants", "^(coxswain-segments|hashicorp-wal-1024|etcd-raft-async)$", "contestants whose name matches")
	flags.StringVar(&dir, "dir", "", "directory for the data; default: a temporary directory")
	flags.BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// killsInTurn is the largest number of kills of a contestant before it is the next one's turn.
const killsInTurn = 10

// failovers is one comparison.
type failovers struct {
	kills, replicas int
	dir             string
	rows            []failoverRow
}

// failoverRow is the result of one contestant with one setting.
type failoverRow struct {
	Contestant string             `json:"contestant"`
	Tuned      bool               `json:"tuned"` // election timeouts of 150 to 300 ms, instead of the library's defaults
	Times      distribution.Times `json:"times"`

	took []time.Duration
}

func (f *failovers) choose(who *regexp.Regexp) {
	for _, name := range names(contestants) {
		if !who.MatchString(name) {
			continue
		}
		f.rows = append(f.rows, failoverRow{Contestant: name, Tuned: true})
		if !isOurs(name) { // our defaults are the tuned timeouts
			f.rows = append(f.rows, failoverRow{Contestant: name})
		}
	}
}

// run measures all rows in turns. After an error, the rows hold what was measured until then.
func (f *failovers) run(ctx context.Context, progress io.Writer) error {
	if len(f.rows) == 0 {
		return errors.New("no contestant matches")
	}
	for done := 0; done < f.kills; done += killsInTurn {
		for i := range f.rows {
			row := &f.rows[i]
			took, err := f.turn(ctx, row, min(killsInTurn, f.kills-done))
			row.took = append(row.took, took...)
			row.Times = distribution.Of(row.took, 0)
			if err != nil {
				return fmt.Errorf("%s: %w", row.Contestant, err)
			}
			_, _ = fmt.Fprintln(progress, row) // there is nowhere to report a failure
		}
	}
	return nil
}

// turn kills leaders of a new cluster.
func (f *failovers) turn(ctx context.Context, row *failoverRow, kills int) (took []time.Duration, err error) {
	dir, err := os.MkdirTemp(f.dir, "run-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := run{
		cell:       cell{Kind: failover, Kills: kills, Replicas: f.replicas, Apart: true, Tuned: row.Tuned},
		contestant: row.Contestant, dir: dir,
	}
	c, err := newCluster(r.contestant, r.cell, r.dir)
	if err != nil {
		return nil, err
	}
	took, err = r.killLeaders(ctx, c)
	return took, c.end(err)
}

func (f *failovers) print(out io.Writer, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(f.rows)
	}
	for i := range f.rows {
		if _, err := fmt.Fprintln(out, &f.rows[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *failoverRow) String() string {
	setting := "its defaults"
	if r.Tuned {
		setting = "150–300 ms"
	}
	t := &r.Times
	return fmt.Sprintf("%-20s %-12s  %3d kills, ms: mean %7.1f  median %7.1f  p90 %7.1f  p99 %7.1f  max %7.1f",
		r.Contestant, setting, t.Count, t.Mean, t.Median, t.P90, t.P99, t.Max)
}
