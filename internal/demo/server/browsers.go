package server

import (
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/coxswain/raft/internal/demo/api"
)

// Every page that somebody opens makes their browser send requests from where it runs: also to a member that listens on
// loopback or behind a firewall. Such a page must neither change nor read anything. A browser sends on its own: which
// site a request is for, in Host, and which site has asked for it, in Sec-Fetch-Site and Origin. Other programs send the
// first alone, and need nothing more.

// checkBrowser refuses a request that a browser sends on behalf of a page of another site. The error is an *api.Error.
func (s *Server) checkBrowser(r *http.Request) error {
	if !s.isOwn(hostname(r.Host)) {
		return api.Errorf(api.WrongHost, "use an IP address of this member, or the name in its URL, which --url and raftkv members address set",
			"the request is for %q, which is no name of %s", r.Host, s.id)
	}
	if err := s.origins.Check(r); err != nil || isEmbedded(r) {
		return api.Errorf(api.CrossSite, "send it with another program than a browser, or from a page of this member",
			"a browser sent this on behalf of a page of another site")
	}
	return nil
}

// isEmbedded reports whether a page of another site has this request sent for a part of itself: an image, a script, a frame.
// Such a page cannot read the answer, but it is told whether there was one, and so whether a key exists. A link that somebody
// follows is none.
func isEmbedded(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
	}
	return false
}

// keepToItself has browsers give an answer to no page of another site. It counts where they do not say which site asks: on
// connections without TLS to other machines.
func keepToItself(h http.Header) {
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
}

// isOwn reports whether this member may be asked under a name. If it answered under any, a page could give its own name
// this member's address (DNS rebinding): then the browser would take both for one site. No page can do that with an
// address, with a name of this machine, or with that of a member's URL.
func (s *Server) isOwn(name string) bool {
	if name == "" || net.ParseIP(name) != nil || name == "localhost" || strings.HasSuffix(name, ".localhost") || s.names[name] {
		return true // HTTP/1.0 names no host; browsers do
	}
	for _, m := range s.node.Members().Configuration.Members {
		if name == nameIn(m.Meta) {
			return true
		}
	}
	return false
}

// nameIn returns the host of a base URL; "" if it has none.
func nameIn(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return hostname(u.Host)
}

// hostname returns the name or address in a Host header, which may have a port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	address, _, _ := strings.Cut(host, "%") // without the zone of an IPv6 address
	if net.ParseIP(address) != nil {
		return address
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// checkJSON refuses a body that says it is something else than JSON, as that of a form does. Earlier releases, and members of them
// that forward a request, do not say what it is.
func checkJSON(h http.Header) error {
	given := h.Values("Content-Type")
	if len(given) == 0 {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(given[0]); err == nil && kind == api.JSONType {
		return nil
	}
	return api.Errorf(api.NotJSON, "send it with the header Content-Type: "+api.JSONType, "the body is of the type %q", given[0])
}
