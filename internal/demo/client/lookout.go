package client

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
)

// lookTimeout bounds one Look.
const lookTimeout = 2 * time.Second

// Lookout asks servers for the members of the cluster. It also asks servers that it learns of, because the given servers may
// be removed from the cluster. Its methods may be called from any goroutine.
type Lookout struct {
	http *http.Client

	given []string

	mu   sync.Mutex
	urls []string // the server that answered last, the given ones, and those of the members in last
	last admin.Members
}

// NewLookout returns a Lookout that initially asks the servers with these base URLs.
func NewLookout(urls []string) *Lookout {
	return &Lookout{http: NewHTTP(2, lookTimeout), given: slices.Clone(urls), urls: slices.Clone(urls)}
}

// Close closes its connections.
func (l *Lookout) Close() { l.http.CloseIdleConnections() }

// Last returns the latest result of Look. Before the first result, it returns the zero value.
func (l *Lookout) Last() admin.Members {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Clients returns a client of each known server, for use with Try.
func (l *Lookout) Clients(shared *http.Client) (all []*Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, url := range l.urls {
		all = append(all, New(url, shared))
	}
	return all
}

// Look asks all servers at the same time, and returns the answer of the best informed server. If the leader answers, the
// leader is the best informed server.
func (l *Lookout) Look(ctx context.Context) (admin.Members, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	servers := l.Clients(l.http)
	views, errs := make([]admin.Members, len(servers)), make([]error, len(servers))
	var all sync.WaitGroup
	for i, server := range servers {
		all.Go(func() { views[i], errs[i] = server.Members(ctx) })
	}
	all.Wait()
	if err := l.keepCluster(servers, views, errs); err != nil {
		return admin.Members{}, err
	}
	best := -1
	for i := range views {
		if errs[i] == nil && (best < 0 || knowsMore(views[i], views[best])) {
			best = i
		}
	}
	if best < 0 {
		return admin.Members{}, fmt.Errorf("no server answers: %w", lookError(errs))
	}
	l.learn(servers[best].base, views[best])
	return views[best], nil
}

// OtherClusterError says that two of the given servers belong to different clusters.
type OtherClusterError struct {
	URLs, IDs [2]string // base URLs, and ids of clusters
}

func (e *OtherClusterError) Error() string {
	return fmt.Sprintf("%s and %s belong to different clusters: the id of the first one's cluster is %s, that of the other's %s; "+
		"name only servers of one cluster", e.URLs[0], e.URLs[1], e.IDs[0], e.IDs[1])
}

// keepCluster drops the answers of servers that belong to another cluster than the given servers. Such a server exists if
// another cluster now runs where a member ran before. If the given servers belong to different clusters, keepCluster returns
// an *OtherClusterError. A server that knows no cluster yet, or that runs an earlier release, reports no id.
func (l *Lookout) keepCluster(servers []*Client, views []admin.Members, errs []error) error {
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

// lookError joins the errors of the servers on one line.
type lookError []error

func (e lookError) Error() string {
	texts := make([]string, 0, len(e))
	for _, err := range e {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ")
}

func (e lookError) Unwrap() []error { return e }

// knowsMore reports whether a is better informed than b: a has a later term, a comes from the leader, or a has a later entry.
func knowsMore(a, b admin.Members) bool {
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

// learn stores the answer of a server, which will be asked first.
func (l *Lookout) learn(from string, m admin.Members) {
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
