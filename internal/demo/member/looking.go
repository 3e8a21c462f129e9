package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/joining"
	library "github.com/coxswain/raft/member"
	"github.com/coxswain/raft/storage"
)

// looks reports whether the member looks for its cluster by itself.
func (o Options) looks() bool { return len(o.Founders)+len(o.Seeds)+len(o.Join) > 0 }

// setPlace sets the fields of a member that looks for its cluster, or corrects its entry. The library checks most of them.
func (o Options) setPlace(cfg *library.Config) error {
	var errs []error
	if cfg.Meta = o.URL; o.looks() {
		cfg.Meta = cmp.Or(o.URL, "http://"+o.HTTPAddr)
	}
	if err := api.CheckURL(cfg.Meta); cfg.Meta != "" && err != nil {
		errs = append(errs, fmt.Errorf("--url: %w", err))
	}
	if cfg.Learner = o.As == raft.Learner.String(); !cfg.Learner && o.As != "" && o.As != raft.Voter.String() {
		errs = append(errs, fmt.Errorf("--as %q: use voter or learner", o.As))
	}
	if !o.looks() {
		if o.As != "" {
			errs = append(errs, errors.New("--as goes with --join or --seeds; the initial members are voters"))
			cfg.Learner = false
		}
		return errors.Join(errs...)
	}
	for _, id := range o.Founders {
		cfg.Founders = append(cfg.Founders, raft.NodeID(id))
	}
	var err error
	if cfg.Seeds, err = parseSeeds(o.Seeds); len(o.Join) > 0 {
		cfg.Seeds, cfg.SetAside = library.LookUp(o.lookUp()), true
		if len(o.Founders)+len(o.Seeds) > 0 {
			err = errors.New("--join goes without --founders and --seeds, which let a member join, too: leave it out")
		}
	}
	for _, server := range o.Join {
		if !api.IsURL(server) {
			errs = append(errs, fmt.Errorf("--join %q: write http://host:port", server))
		}
	}
	return errors.Join(append(errs, err)...)
}

// parseSeeds returns the seeds in the flags. "dns:7000" is port 7000 of a host named dns.
func parseSeeds(texts []string) (seeds library.Seeds, err error) {
	for _, text := range texts {
		name, is := strings.CutPrefix(text, "dns:")
		if !is || !strings.Contains(name, ":") {
			continue
		}
		if seeds = library.DNS(name); len(texts) > 1 {
			err = fmt.Errorf("--seeds %q: give one name alone, or addresses", text)
		}
		return seeds, err
	}
	return library.Addresses(texts...), nil
}

// lookUp returns a function that asks the servers in Join for the Raft addresses of the members.
func (o Options) lookUp() func(context.Context) ([]string, error) {
	seen := client.NewLookout(o.Join)
	return func(ctx context.Context) (addresses []string, err error) {
		defer seen.Close()
		now, err := seen.Look(ctx)
		if err != nil {
			return nil, fmt.Errorf("--join: %w", err)
		}
		for _, m := range now.Members {
			if m.Address != "" {
				addresses = append(addresses, m.Address)
			}
		}
		switch {
		case len(addresses) > 0:
			return addresses, nil
		case now.ID == o.ID:
			return nil, errors.New("only this member itself answers: give --join the URLs of other servers")
		}
		return nil, fmt.Errorf("--join: %s answers, but knows no cluster yet", now.ID)
	}
}

// startsAgain reports whether a member that has ended with err starts again, because its start sets the store aside.
func startsAgain(cfg library.Config, err error) bool {
	var removed *raft.RemovedError
	return errors.As(err, &removed) && removed.Index == cfg.Rejoin || cfg.SetAside && damaged(err)
}

// damaged reports whether a store may be set aside because a member could not start with it, or ended, with err.
func damaged(err error) bool {
	var older *raft.StaleImageError
	var corrupt *raft.CorruptError
	var unfinished *storage.UnfinishedAsideError // an interrupted call is completed
	return errors.As(err, &older) || errors.As(err, &corrupt) || errors.As(err, &unfinished)
}

// remedy adds a remedy to the error with which the member ended, if it cannot start again with its store.
func (o Options) remedy(err error) error {
	var removed *raft.RemovedError
	var kept *joining.KeptError
	join, rest := "--join URL", "in place of --peers"
	if o.looks() {
		join, rest = "--set-aside", "with the other flags as they are"
	}
	const aside = "sets this store aside without deleting anything"
	switch {
	case errors.As(err, &removed) && o.looks():
		return fmt.Errorf("%w\nraftkv serve --rejoin %d, %s, %s, and lets the member join again with an empty one", err, removed.Index, rest, aside)
	case errors.As(err, &removed):
		return fmt.Errorf("%w\nraftkv serve %s --rejoin %d, %s, %s, and lets the member join again with an empty one", err, join, removed.Index, rest, aside)
	case errors.As(err, &kept): // it says what is missing
		return fmt.Errorf("%w; the store is kept: %s", inFlag(kept.Why), keptInFlags.Replace(kept.Reason))
	case !damaged(err) || o.SetAside || len(o.Join) > 0:
		return err
	}
	return fmt.Errorf("%w\nraftkv serve %s, %s, %s once a leader confirms this member, and lets it join again with an empty one", err, join, rest, aside)
}

// keptInFlags replaces functions and fields in the reason of a *joining.KeptError.
var keptInFlags = strings.NewReplacer("(storage.SetAside)", "(move the directory in --data away)",
	"with storage.SetAside", "(move the directory in --data away)", "member.Config.Rejoin", "--rejoin")

// WithRemedy adds a remedy to the error if no member can start with the store.
func WithRemedy(err error) error { return Options{}.remedy(err) }
