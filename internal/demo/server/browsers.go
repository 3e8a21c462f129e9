package server

import (
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/coxswain/raft/internal/demo/api"
)

// A web page can make a browser send requests from the browser's own machine, even to a member that listens on loopback or
// behind a firewall. Such a page must neither change nor read anything. A browser always sends the site that receives the
// request in Host. It sends the site that asked for the request in Sec-Fetch-Site and Origin. Other programs send only Host,
// and this is enough.

// checkBrowser refuses a request that a browser sends for a page of another site. The error is an *api.Error.
func (s *Server) checkBrowser(r *http.Request) error {
	if !s.isOwn(hostname(r.Host)) {
		return api.Errorf(api.WrongHost, "use an IP address of this member, or the name in its URL, which --url and raftkv members address set",
			"the request is for %q, which is not a name of %s", r.Host, s.id)
	}
	if err := s.origins.Check(r); err != nil || isEmbedded(r) {
		return api.Errorf(api.CrossSite, "send it with a program that is not a browser, or from a page of this member",
			"a browser sent this for a page of another site")
	}
	return nil
}

// isEmbedded reports whether a page of another site requests a part of itself: an image, a script or a frame. Such a page
// cannot read the answer. But it learns whether the request succeeded, and so it learns whether a key exists. A link that a
// user follows is not such a part.
func isEmbedded(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
	}
	return false
}

// keepToItself adds headers that forbid browsers to give an answer to a page of another site. Browsers do not name the asking
// site on connections without TLS to other machines. The headers matter there.
func keepToItself(h http.Header) {
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
}

// isOwn reports whether this member answers requests for this name. If a member answered for every name, a page could give
// its own name the address of this member (DNS rebinding). The browser would then take the page and the member for one site.
// No page can do that with an address, with a name of this machine, or with the name in a member's URL.
func (s *Server) isOwn(name string) bool {
	if name == "" || net.ParseIP(name) != nil || name == "localhost" || strings.HasSuffix(name, ".localhost") || s.names[name] {
		return true // HTTP/1.0 names no host, but browsers always do
	}
	for _, m := range s.node.Members().Configuration.Members {
		if name == nameIn(m.Meta) {
			return true
		}
	}
	return false
}

// nameIn returns the host of a base URL. It returns "" if the URL has no host.
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

// checkJSON refuses a body with a Content-Type other than JSON, such as a form. It accepts a body without a Content-Type,
// because earlier releases send none.
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
