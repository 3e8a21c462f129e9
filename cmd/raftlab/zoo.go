package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coxswain/raft/fuzzy/zoo"
	"github.com/coxswain/raft/internal/usage"
)

// newZoo returns the command of package zoo, with this program's exit codes.
func newZoo() *cobra.Command {
	cmd := zoo.Command()
	hunt := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := hunt(cmd, args)
		if errors.Is(err, zoo.ErrUsage) {
			return fmt.Errorf("%w; %w", err, usage.Err)
		}
		return err
	}
	return cmd
}
