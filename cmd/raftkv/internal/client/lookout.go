package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coxswain/raft/cmd/raftkv/internal/api"
)

// lookTimeout bounds the wait for the servers that are asked for the members.
const lookTimeout = 2 * time.Second

// Lookout asks servers for the members of the cluster. It also asks those that it learns of, since the ones that it was
// given may be removed. Any goroutine may call its methods.
type Lookout struct {
	http *http.Client

	given []string

	mu   sync.Mutex
	urls []string // those that were given, and those of the members in last
	last api.Members
}

// NewLookout returns a Lookout that asks the servers with these base URLs at first.
func NewLookout(urls []string) *Lookout {
	return &Lookout{http: NewHTTP(2, lookTimeout), given: slices.Clone(urls), urls: slices.Clone(urls)}
}

// Close closes its connections.
func (l *Lookout) Close() { l.http.CloseIdleConnections() }

// Last returns what Look has returned last; the zero value at first.
func (l *Lookout) Last() api.Members {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Clients returns a client of each server that is known, as Try takes them.
func (l *Lookout) Clients(shared *http.Client) (all []*Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, url := range l.urls {
		all = append(all, New(url, shared))
	}
	return all
}

// Look asks all servers at the same time, and returns the answer of the one that knows most: of the leader, if it
// answers.
func (l *Lookout) Look(ctx context.Context) (api.Members, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	servers := l.Clients(l.http)
	views, errs := make([]api.Members, len(servers)), make([]error, len(servers))
	var all sync.WaitGroup
	for i, server := range servers {
		all.Go(func() { views[i], errs[i] = server.Members(ctx) })
	}
	all.Wait()
	var best *api.Members
	for i := range views {
		if errs[i] == nil && (best == nil || knowsMore(views[i], *best)) {
			best = &views[i]
		}
	}
	if best == nil {
		return api.Members{}, fmt.Errorf("no server answers: %w", lookError(errs))
	}
	l.learn(*best)
	return *best, nil
}

// lookError joins the errors, and says what it means that a server has no such path.
func lookError(errs []error) error {
	for i, err := range errs {
		if api.CodeOf(err) == api.NotFound {
			errs[i] = errors.New("it runs an earlier release, which cannot change the members: upgrade it")
		}
	}
	return errors.Join(errs...)
}

// knowsMore reports whether a is later than b: of a later term, of the leader, or of a later entry.
func knowsMore(a, b api.Members) bool {
	switch {
	case (a.Index > 0) != (b.Index > 0):
		return a.Index > 0
	case a.Term != b.Term:
		return a.Term > b.Term
	case a.Leads() != b.Leads():
		return a.Leads()
	}
	return a.Index > b.Index
}

func (l *Lookout) learn(m api.Members) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.urls = slices.Clone(l.given)
	for _, member := range m.Members {
		if api.IsURL(member.URL) && !slices.Contains(l.urls, member.URL) {
			l.urls = append(l.urls, member.URL)
		}
	}
	l.last = m
}
