// Package usage reports errors of a command line.
package usage

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Err is matched by errors about the command line itself.
var Err = errors.New("see --help")

// Args marks errors about arguments as usage errors, and adds the correct form of the command.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		switch {
		case err == nil:
			return nil
		case cmd.HasSubCommands(): // the argument was meant as a subcommand
			if cmd.SuggestionsMinimumDistance = 2; len(cmd.SuggestionsFor(args[0])) > 0 {
				err = fmt.Errorf("%w (did you mean %s?)", err, strings.Join(cmd.SuggestionsFor(args[0]), " or "))
			}
			return fmt.Errorf("%w; %w", err, Err)
		}
		return fmt.Errorf("%w: write %s; %w", err, cmd.UseLine(), Err)
	}
}

// taken describes the values of flags, by type.
var taken = map[string]string{
	"bool":     "it takes true or false",
	"int":      "it takes a whole number",
	"uint64":   "it takes a whole number, 0 or more",
	"bytes":    "it takes a number of bytes, as in 4096, 64KiB, 16MiB or 1GiB",
	"duration": "it takes a time with its unit, as in 150ms, 2s or 1m30s",
}

// Flag is a command's FlagErrorFunc. It marks the error as a usage error, and adds the values that the flag takes.
func Flag(_ *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) && taken[bad.GetFlag().Value.Type()] != "" {
		err = fmt.Errorf("--%s %q: %s", bad.GetFlag().Name, bad.GetValue(), taken[bad.GetFlag().Value.Type()])
	}
	return fmt.Errorf("%w; %w", err, Err)
}
