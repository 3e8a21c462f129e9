package server

import (
	"context"
	"net/http"

	"github.com/coxswain/raft/admin"
)

// isLive reports whether a path belongs to the page of package admin, which decides itself which other pages may read it.
func isLive(path string) bool {
	_, isFile := admin.Page[path]
	return isFile || path == admin.EventsPath || path == admin.DoctorPath
}

// live answers for the page. A stream of events ends when this server drains: it would not end by itself.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != admin.EventsPath {
		s.deliver(w, r, s.administer(r, nil))
		return
	}
	w.Header().Set("Connection", "close") // otherwise the server would wait for another request afterwards
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		select {
		case <-s.leaving:
			cancel()
		case <-ctx.Done():
		}
	}()
	s.admin.ServeHTTP(w, r.WithContext(ctx))
}

// toPage leads a person who types the address of a member to its page.
func toPage(*http.Request, []byte) answer {
	return answer{status: http.StatusFound, header: http.Header{"Location": {admin.LivePath}}}
}
