package member

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
	library "github.com/coxswain/raft/member"
)

// founding reports whether package member looks for the cluster, so that no joiner and no mover runs.
func (o Options) founding() bool { return len(o.Founders)+len(o.Seeds) > 0 }

// setFounding sets the fields from Founders to Learner. The library checks them.
func (o Options) setFounding(cfg *library.Config) error {
	for _, id := range o.Founders {
		cfg.Founders = append(cfg.Founders, raft.NodeID(id))
	}
	cfg.Meta, cfg.Learner = cmp.Or(o.URL, "http://"+o.HTTPAddr), o.As == learner
	var err, joins error
	cfg.Seeds, err = parseSeeds(o.Seeds)
	if len(o.Join) > 0 {
		joins = errors.New("--join goes without --founders and --seeds, which let a member join, too: leave it out")
	}
	return errors.Join(err, joins, o.checkAs(), o.checkPlace(addresses{URL: cfg.Meta}))
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

// remedy adds a remedy to the error with which the member ended, if it cannot start again with its store.
func (o Options) remedy(err error) error {
	var removed *raft.RemovedError
	var kept *joining.KeptError // it says why the store was not set aside
	switch {
	case !o.founding() || !spent(err, false):
		return WithRemedy(err)
	case errors.As(err, &removed):
		return fmt.Errorf("%w\nraftkv serve --rejoin %d, with the other flags as they are, sets this store aside without deleting anything, "+
			"and lets the member join again with an empty one", err, removed.Index)
	case errors.As(err, &kept):
		return err
	case o.SetAside:
		return fmt.Errorf("%w\nthe next start sets this store aside, once a leader confirms this member", err)
	}
	return fmt.Errorf("%w\nraftkv serve --set-aside, with the other flags as they are, sets this store aside without deleting anything once a "+
		"leader confirms this member, and lets it join again with an empty one", err)
}
