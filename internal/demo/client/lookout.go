package client

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coxswain/raft/internal/demo/api"
)

// lookTimeout bounds the wait for the servers that are asked for the members.
const lookTimeout = 2 * time.Second

// Lookout asks servers for the members of the cluster. It also asks those that it learns of, since the ones that it was
// given may be removed. Any goroutine may call its methods.
type Lookout struct {
	http *http.Client

	given []string

	mu   sync.Mutex
	urls []string // of who has told last, those that were given, and those of the members in last
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
	if err := l.keepCluster(servers, views, errs); err != nil {
		return api.Members{}, err
	}
	best := -1
	for i := range views {
		if errs[i] == nil && (best < 0 || knowsMore(views[i], views[best])) {
			best = i
		}
	}
	if best < 0 {
		return api.Members{}, fmt.Errorf("no server answers: %w", lookError(errs))
	}
	l.learn(servers[best].base, views[best])
	return views[best], nil
}

// OtherClusterError says that two servers which were given belong to different clusters.
type OtherClusterError struct {
	URLs, IDs [2]string // base URLs, and ids of clusters
}

func (e *OtherClusterError) Error() string {
	return fmt.Sprintf("%s and %s belong to different clusters: the id of the first one's cluster is %s, that of the other's %s; "+
		"name servers of one cluster alone", e.URLs[0], e.URLs[1], e.IDs[0], e.IDs[1])
}

// keepCluster leaves out the answers of servers that belong to another cluster than those that were given: another cluster may
// run where a member did once. The error is an *OtherClusterError if those that were given differ. A server that knows no
// cluster yet, or runs an earlier release, says no id.
func (l *Lookout) keepCluster(servers []*Client, views []api.Members, errs []error) error {
	first := -1
	for i, server := range servers {
		if errs[i] != nil || views[i].ClusterID == "" || !l.isGiven(server.base) {
			continue
		}
		if first < 0 {
			first = i
		} else if of := views[first].ClusterID; of != views[i].ClusterID {
			return &OtherClusterError{[2]string{servers[first].base, server.base}, [2]string{of, views[i].ClusterID}}
		}
	}
	ours := l.Last().ClusterID
	if first >= 0 {
		ours = views[first].ClusterID
	}
	for i, server := range servers {
		if id := views[i].ClusterID; errs[i] == nil && ours != "" && id != "" && id != ours {
			errs[i] = fmt.Errorf("%s belongs to the cluster with the id %s, and not %s", server.base, id, ours)
		}
	}
	return nil
}

func (l *Lookout) isGiven(base string) bool {
	return slices.ContainsFunc(l.given, func(url string) bool { return strings.TrimSuffix(url, "/") == base })
}

// lookError is what went wrong at each server, on one line.
type lookError []error

func (e lookError) Error() string {
	texts := make([]string, 0, len(e))
	for _, err := range e {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ")
}

func (e lookError) Unwrap() []error { return e }

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

// learn keeps what a server has said. That server is asked for changes first: another one may be of an earlier release,
// which knows of none.
func (l *Lookout) learn(from string, m api.Members) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.urls = []string{from}
	known := func(url string) bool {
		return slices.ContainsFunc(l.urls, func(other string) bool { return strings.TrimSuffix(other, "/") == strings.TrimSuffix(url, "/") })
	}
	for _, url := range l.given {
		if !known(url) {
			l.urls = append(l.urls, url)
		}
	}
	for _, member := range m.Members {
		if api.IsURL(member.URL) && !known(member.URL) {
			l.urls = append(l.urls, member.URL)
		}
	}
	l.last = m
}
