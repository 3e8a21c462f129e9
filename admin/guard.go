package admin

import (
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/coxswain/raft"
)

// A web page can make a browser send requests from the browser's own machine, even to a member that listens on loopback or
// behind a firewall. Such a page must neither change nor read anything. A browser always sends the site that receives the
// request in Host. It sends the site that asked for the request in Sec-Fetch-Site and Origin. Other programs send only Host,
// and this is enough.

// Guard refuses a request that a browser sends for a page of another site, and a request for a name that is not the member's
// own. Own names are IP addresses, names of loopback, the hosts of the URLs in the Meta of the members, and the given hosts. If
// Guard returns an error, answer with its Write. Otherwise the answer has headers that keep it from pages of other sites.
// Handler calls it for its own paths. Call it for further paths that are served without authentication.
func Guard(w http.ResponseWriter, r *http.Request, m Member, hosts ...string) *Error {
	keepToItself(w.Header())
	if wrong := checkHost(r, m, hosts); wrong != nil {
		return wrong
	}
	if err := new(http.CrossOriginProtection).Check(r); err != nil || isEmbedded(r) {
		return errorf(CrossSite, "send it with a program that is not a browser, or from a page of this member",
			"a browser sent this for a page of another site")
	}
	return nil
}

func checkHost(r *http.Request, m Member, hosts []string) *Error {
	if isOwn(hostname(r.Host), m, hosts) {
		return nil
	}
	return errorf(WrongHost, "use an IP address of this member, the name in its URL, or one in Options.Hosts",
		"the request is for %q, which is not a name of %s", r.Host, m.Status().ID)
}

// guard is Guard for the paths of the handler. A page that a member has served reads from the other members, too: it may read
// what shared lists, by GET alone, and without anything that the browser keeps for the site.
func (h *handler) guard(w http.ResponseWriter, r *http.Request) *Error {
	origin := r.Header.Get("Origin")
	if origin == "" || r.Method != http.MethodGet || !slices.Contains(shared, r.URL.Path) {
		return Guard(w, r, h.member, h.options.Hosts...)
	}
	keepToItself(w.Header())
	w.Header().Set("Vary", "Origin")
	if wrong := checkHost(r, h.member, h.options.Hosts); wrong != nil {
		return wrong
	}
	if u, err := url.Parse(origin); (err != nil || u.Host != r.Host) && !h.lists(origin) {
		return errorf(CrossSite, "open the page at the URL of a member, or list this origin in Options.Origins",
			"a page of %q asked for this, which is the origin of no member", origin)
	}
	w.Header().Set("Access-Control-Allow-Origin", origin)
	return nil
}

// shared lists the paths that a page of another member may read.
var shared = []string{EventsPath, DoctorPath}

// lists reports whether a page of this origin may read the paths in shared: the origin of a URL in the Meta of a member, or one
// of Options.Origins.
func (h *handler) lists(origin string) bool {
	return slices.Contains(h.options.Origins, origin) ||
		slices.ContainsFunc(h.member.Members().Configuration.Members, func(m raft.Member) bool { return originOf(m.Meta) == origin })
}

// originOf returns the origin of a URL as browsers write it; "": it has none that a page could have.
func originOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	if u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443" {
		u.Host = strings.TrimSuffix(u.Host, ":"+u.Port())
	}
	return u.Scheme + "://" + strings.ToLower(u.Host)
}

// isEmbedded reports whether a page of another site requests a part of itself: an image, a script or a frame. Such a page
// cannot read the answer. But it learns whether the request succeeded. A link that a user follows is not such a part.
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
func isOwn(name string, m Member, hosts []string) bool {
	if name == "" || net.ParseIP(name) != nil || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true // HTTP/1.0 names no host, but browsers always do
	}
	return slices.ContainsFunc(hosts, func(host string) bool { return hostname(host) == name }) ||
		slices.ContainsFunc(m.Members().Configuration.Members, func(m raft.Member) bool { return nameIn(m.Meta) == name })
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
	if kind, _, err := mime.ParseMediaType(given[0]); err == nil && kind == jsonType {
		return nil
	}
	return errorf(NotJSON, "send it with the header Content-Type: "+jsonType, "the body is of the type %q", given[0])
}
