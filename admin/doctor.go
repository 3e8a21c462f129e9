package admin

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"
)

// doctorPause is the minimum time between two rounds of questions to all members.
const doctorPause = time.Second

// doctor keeps the last diagnosis, so that many pages ask the members no more often than one.
type doctor struct {
	mu   sync.Mutex
	at   time.Time
	last *Diagnosis
}

// diagnosis answers with what Diagnose finds now, without the statuses of the servers. It takes one look, so during an election
// it finds that there is no leader.
func (h *handler) diagnosis(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	leave, err := enter(h.waiting, "wait for a diagnosis")
	if err != nil {
		return 0, nil, err
	}
	defer leave()
	h.doctor.mu.Lock()
	defer h.doctor.mu.Unlock()
	if h.doctor.last == nil || time.Since(h.doctor.at) > doctorPause {
		servers := askAll(context.WithoutCancel(r.Context()), h.urls(), h.askAs(r)) // the answer is for others, too
		if h.ownURL() == "" {
			own := StatusOf(h.member)
			servers = append([]Server{{Status: &own}}, servers...)
		}
		found := join(servers)
		for i := range found.Servers {
			found.Servers[i].Status = nil
		}
		h.doctor.last, h.doctor.at = found, time.Now()
	}
	return http.StatusOK, h.doctor.last, nil
}

// urls returns the URLs of the members.
func (h *handler) urls() (urls []string) {
	for _, m := range h.member.Status().Members {
		urls = append(urls, m.Meta)
	}
	return urls
}

// askAs returns an Ask for members that are served below the same prefix as the request. This member is not asked over the
// network.
func (h *handler) askAs(r *http.Request) Ask {
	prefix := prefixOf(r)
	client := h.options.Client
	if client == nil {
		client = http.DefaultClient
	}
	over := Asking(client)
	return func(ctx context.Context, url string) (Status, error) {
		if own := h.ownURL(); own != "" && url == strings.TrimSuffix(own, "/") {
			return StatusOf(h.member), nil
		}
		return over(ctx, originOf(url)+prefix)
	}
}

// prefixOf returns what http.StripPrefix has removed.
func prefixOf(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	return strings.TrimSuffix(path, r.URL.Path)
}

// ownURL returns the Meta of this member.
func (h *handler) ownURL() string {
	self := h.member.Status()
	for _, m := range self.Members {
		if m.ID == self.ID && m.Incarnation == self.Incarnation {
			return m.Meta
		}
	}
	return ""
}
