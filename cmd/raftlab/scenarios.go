package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/internal/usage"
)

// newScenarios lists the directed scenarios.
func newScenarios() *cobra.Command {
	return &cobra.Command{
		Use: "scenarios", Short: "List the directed scenarios, which show what random seeds rarely reach", Args: usage.Args(cobra.NoArgs),
		Long: `Lists the directed scenarios, each with what it shows. Wherever a command accepts a seed, scenario:NAME names
one, and scenario:NAME.3 the same scenario with other delays, timeouts and ids.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, line := range fuzzy.Scenarios() {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
