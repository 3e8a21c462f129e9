package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/coxswain/raft/cmd/raftkv/internal/certs"
	"github.com/coxswain/raft/internal/usage"
	"github.com/spf13/cobra"
)

const certsHelp = `certs makes the files with which members prove to each other who they are. --dir is the directory of an authority. Copy ca.pem,
ID.pem and ID.key to each member, for --tls-ca, --tls-cert and --tls-key of "raftkv serve". Keep ca.key where no member is: who has
it can pose as any member. No command replaces a key.

A running member reads changed files within a second, without a restart. "raftkv certs show --server" tells which ones it uses.
Renew certificates with "member --renew": then only ID.pem is to be copied. An authority that ends, or of which a key was lost, is
replaced in three steps. Take each on all members before the next one, so that they accept each other all the time:

  raftkv certs authority --dir NEW --cluster NAME --former OLD/ca.pem
  raftkv certs member --dir NEW ID...
  1. copy NEW/ca-both.pem to every member, over its --tls-ca: it accepts certificates of both authorities
  2. copy NEW/ID.pem and NEW/ID.key to every member, over its --tls-cert and --tls-key
  3. copy NEW/ca.pem to every member, over its --tls-ca: it accepts certificates of the new authority alone`

func newCerts() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "certs",
		Short: "Make, renew and check the certificates of members",
		Long:  certsHelp,
		Example: `  raftkv certs authority --cluster jobs
  raftkv certs member n1 n2 n3
  raftkv certs show
  raftkv certs member --renew n1 n2 n3`,
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&dir, "dir", "certs", "directory of the authority")
	cmd.AddCommand(newCertsAuthority(&dir), newCertsMember(&dir), newCertsShow(&dir))
	return cmd
}

func newCertsAuthority(dir *string) *cobra.Command {
	var cluster, former string
	var days int
	cmd := &cobra.Command{
		Use:   "authority --cluster NAME",
		Short: "Make an authority, which may replace another one",
		Args:  usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := certs.New(*dir, cluster, former, days)
			if err != nil {
				return err
			}
			return sayDone(cmd.OutOrStdout(), "%s: authority %s, until %s. Keep ca.key away from the members.\nnext: raftkv certs member --dir %[1]s ID...",
				*dir, a.Cert.Subject, certs.Time(a.Cert.NotAfter))
		},
	}
	cmd.Flags().StringVar(&cluster, "cluster", "", "the cluster's name, as in raftkv serve (required)")
	cmd.Flags().StringVar(&former, "former", "", "ca.pem of the authority that it replaces")
	cmd.Flags().IntVar(&days, "days", 3650, "how long it is valid")
	return cmd
}

func newCertsMember(dir *string) *cobra.Command {
	var hosts []string
	var days int
	var renew bool
	cmd := &cobra.Command{
		Use:   "member ID...",
		Short: "Make or renew certificates of members",
		Args:  usage.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, ids []string) error {
			a, err := certs.Open(*dir)
			if err != nil {
				return err
			}
			issue := a.Issue
			if renew {
				issue = a.Renew
			}
			for i, id := range ids {
				cert, err := issue(id, hosts, days)
				if err == nil {
					err = sayDone(cmd.OutOrStdout(), "%s: %s, by %s, until %s", id, cert.URIs[0], cert.Issuer, certs.Time(cert.NotAfter))
				}
				if err != nil && i > 0 {
					err = &exitError{exitUnknown, fmt.Errorf("%w; done before: %s", err, strings.Join(ids[:i], " "))}
				}
				if err != nil {
					return err
				}
			}
			return sayDone(cmd.OutOrStdout(), "next: %s", afterIssue(*dir, renew))
		},
	}
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "names and IP addresses, if the certificate has other uses, too: members need none")
	cmd.Flags().IntVar(&days, "days", 365, "how long it is valid")
	cmd.Flags().BoolVar(&renew, "renew", false, "replace a certificate by one with the same key and, without --host, the same hosts")
	return cmd
}

func afterIssue(dir string, renew bool) string {
	if renew {
		return "copy ID.pem to each member, over its --tls-cert"
	}
	if _, err := os.Stat(filepath.Join(dir, certs.BothFile)); err == nil {
		return "copy to every member, and wait each time until raftkv certs show --server URL,... says that all use it:\n" +
			"1. ca-both.pem, over its --tls-ca; 2. ID.pem and ID.key, over its --tls-cert and --tls-key; 3. ca.pem, over its --tls-ca"
	}
	return "copy ca.pem, ID.pem and ID.key to each member, for its --tls-ca, --tls-cert and --tls-key"
}

func newCertsShow(dir *string) *cobra.Command {
	r := reach{timeout: statusTimeout}
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show what is in a directory, or what running members use",
		Long: `show prints whose certificates are in --dir, by whom, when they end, and what is wrong. The directory may also be one of a member.
With --server, it asks running members what they use, and which of them do not trust each other. The exit code is 1 if anything
needs attention, from 30 days before an end on.`,
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows, err := certs.Show(*dir)
			if len(r.urls) > 0 {
				rows, err = usedCerts(cmd, &r)
			}
			if err != nil {
				return err
			}
			return printCerts(cmd.OutOrStdout(), rows)
		},
	}
	cmd.Flags().StringSliceVar(&r.urls, "server", nil, "base URLs of the servers to ask")
	return cmd
}

// usedCerts asks running members what they use.
func usedCerts(cmd *cobra.Command, r *reach) (rows []certs.Row, err error) {
	urls, err := r.servers()
	if err != nil {
		return nil, err
	}
	all := askAll(cmd.Context(), r, urls)
	for _, s := range all {
		row := certs.Row{File: s.name(), Problem: s.Problem}
		switch {
		case s.Status == nil:
		case s.TLS == nil:
			row.Problem = "it has no certificate files, or does not tell"
		default:
			row.What = fmt.Sprintf("by %s; trusts %s", s.TLS.Issuer, strings.Join(s.TLS.Authorities, " and "))
			row.Until, row.Problem = s.TLS.NotAfter, cmp.Or(s.TLS.Problem, prefixed("not trusted by ", strings.Join(refusing(s, all), " ")))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// refusing returns the members that do not trust the authority of a member's certificate.
func refusing(r report, all []report) (names []string) {
	for _, other := range all {
		if other.Status != nil && other.TLS != nil && !slices.Contains(other.TLS.Authorities, r.TLS.Issuer) {
			names = append(names, other.name())
		}
	}
	return names
}

func printCerts(out io.Writer, rows []certs.Row) error {
	table, problems := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), 0
	for _, row := range rows {
		until, state := "", "ok"
		if !row.Until.IsZero() {
			until = "until " + certs.Time(row.Until)
		}
		if row.Problem != "" {
			problems, state = problems+1, row.Problem
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", row.File, row.What, until, state) // Flush returns the error
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if problems > 0 {
		return errors.New("not all is well")
	}
	return nil
}
