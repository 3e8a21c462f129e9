package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coxswain/raft/node"
)

// Healthy is Diagnosis.Verdict if nothing was found.
const Healthy = "healthy"

// Limits of a diagnosis.
const (
	AskTimeout = 2 * time.Second // of one server
	AskedMax   = 64              // servers that are asked

	electionPause = 300 * time.Millisecond // between two looks at a cluster without a leader
	electionLooks = 5
	statusBytes   = 4 << 20 // the largest status
)

// Ask returns the status of the server with that base URL.
type Ask func(ctx context.Context, url string) (Status, error)

// Asking returns an Ask that sends GET url/status.
func Asking(c *http.Client) Ask {
	return func(ctx context.Context, url string) (s Status, err error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+StatusPath, nil)
		if err != nil {
			return s, err
		}
		answer, err := c.Do(r)
		if err != nil {
			return s, err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return s, fmt.Errorf("%s: %s", url, answer.Status)
		}
		if err := json.NewDecoder(io.LimitReader(answer.Body, statusBytes)).Decode(&s); err != nil {
			return s, fmt.Errorf("%s does not answer like a member: %w", url, err)
		}
		return s, nil
	}
}

// Diagnosis joins what the members of a cluster say.
type Diagnosis struct {
	// Verdict is the name of the first finding, with which to begin, or Healthy. Severity is the worst one; "": healthy.
	Verdict  string        `json:"verdict"`
	Severity node.Severity `json:"severity,omitempty"`
	Findings []Diagnosed   `json:"findings"`
	Links    []Link        `json:"links"`
	Servers  []Server      `json:"servers"`
}

// Diagnosed is a finding, and what to do about it.
type Diagnosed struct {
	Finding
	Evidence []string `json:"evidence,omitempty"` // who says what else about it
	Next     string   `json:"next"`               // what to do first
	Runbook  string   `json:"runbook"`            // where it says more
}

// Link says whether one member hears another.
type Link struct {
	Member string `json:"member"`
	Hears  string `json:"hears"`
	Works  bool   `json:"works"`
	Says   string `json:"says,omitempty"` // why not
}

// Server is a server that was asked. Status is nil if it did not answer, and Error says why.
type Server struct {
	URL    string  `json:"url"`
	Status *Status `json:"status,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// Diagnose asks the servers with these base URLs, and all members that they name, and joins their answers. It asks each server
// for at most AskTimeout. While it finds no leader, it looks again, for some seconds at most, because elections end by
// themselves. It changes nothing. Any goroutine may call it.
func Diagnose(ctx context.Context, urls []string, ask Ask) *Diagnosis {
	for look := 1; ; look++ {
		d := join(askAll(ctx, urls, ask))
		if d.Verdict != node.VerdictNoLeader || look == electionLooks {
			return d
		}
		select {
		case <-ctx.Done():
			return d
		case <-time.After(electionPause):
		}
	}
}

// askAll asks the servers, then the members that they name, until nobody names another one.
func askAll(ctx context.Context, urls []string, ask Ask) (all []Server) {
	var next []Server
	add := func(u string) {
		u = strings.TrimSuffix(u, "/")
		known := func(s Server) bool { return s.URL == u }
		if parsed, err := url.Parse(u); err == nil && parsed.Host != "" && len(all)+len(next) < AskedMax &&
			!slices.ContainsFunc(all, known) && !slices.ContainsFunc(next, known) {
			next = append(next, Server{URL: u})
		}
	}
	for _, u := range urls {
		add(u)
	}
	for len(next) > 0 {
		var wait sync.WaitGroup
		for i := range next {
			wait.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, AskTimeout)
				defer cancel()
				if s, err := ask(ctx, next[i].URL); err != nil {
					next[i].Error = err.Error()
				} else {
					next[i].Status = &s
				}
			})
		}
		wait.Wait()
		asked := next
		all, next = append(all, asked...), nil
		for _, s := range asked {
			if s.Status != nil {
				for _, m := range s.Status.Members {
					add(m.URL)
				}
			}
		}
	}
	return all
}

// Answered reports whether a server has answered.
func (d *Diagnosis) Answered() bool {
	return slices.ContainsFunc(d.Servers, func(s Server) bool { return s.Status != nil })
}

// Leader returns the status of the leader. It is nil if no leader has answered.
func (d *Diagnosis) Leader() *Status {
	best := bestOf(d.Servers)
	if best == nil || best.Role != "leader" || best.Error != "" {
		return nil
	}
	return best
}

// bestOf returns the best informed status: of the leader of the latest term, or of a member that knows it.
func bestOf(servers []Server) (best *Status) {
	rank := func(s *Status) int {
		switch {
		case s.Error != "" || s.Wiped || !s.Bootstrapped:
			return 0
		case s.Role == "leader":
			return 3
		case s.Leader != "":
			return 2
		}
		return 1
	}
	for _, s := range servers {
		if s.Status == nil {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(min(rank(s.Status), 2), min(rank(best), 2)), cmp.Compare(s.Status.Term, best.Term),
			cmp.Compare(rank(s.Status), rank(best))) > 0 {
			best = s.Status
		}
	}
	return best
}

// diagnosed returns a finding with what the table says about its verdict.
func diagnosed(f Finding, evidence ...string) Diagnosed {
	v, _ := node.VerdictNamed(f.Verdict)
	f.Severity = cmp.Or(v.Severity, f.Severity)
	next := v.Next
	if f.Member != "" {
		next = idWord.ReplaceAllLiteralString(next, f.Member)
	}
	return Diagnosed{Finding: f, Evidence: evidence, Next: next, Runbook: v.Runbook()}
}

var idWord = regexp.MustCompile(`\bID\b`)
