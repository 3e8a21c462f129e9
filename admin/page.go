package admin

import (
	"embed"
	"net/http"
	"path"
	"strconv"
)

//go:embed page
var assets embed.FS

// Page holds the names of the files of the page, by the paths at which they are served. It is for a program that serves the
// page at an address of its own, with ServePage. Do not change it.
var Page = map[string]string{
	LivePath: "live.html", "/live.css": "live.css", "/live.js": "live.js", "/live-state.js": "live-state.js", "/live-view.js": "live-view.js",
	"/live-plot.js": "live-plot.js",
}

// pagePolicy lets the page run its own scripts, and read from members, which may be added later. It lets it do nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self' http: https:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// page answers with a file of Page. If the browser has opened the page under a name that no member lists, such as localhost, the
// other members would not let it read anything: it opens the page at the URL of this member instead.
func (h *handler) page(w http.ResponseWriter, r *http.Request) {
	own := originOf(h.ownURL())
	if r.URL.Path != LivePath || own == "" || r.URL.RawQuery != "" || h.lists("http://"+r.Host) || h.lists("https://"+r.Host) {
		ServePage(w, r)
		return
	}
	http.Redirect(w, r, own+prefixOf(r)+LivePath+"?moved", http.StatusFound) // once: a proxy may have changed the Host
}

// ServePage answers with a file of Page. The caller has checked the request, as Guard does.
func ServePage(w http.ResponseWriter, r *http.Request) {
	name, found := Page[r.URL.Path]
	if !found {
		errorf(NotFound, "the page is at "+LivePath, "no such file: %s", r.URL.Path).Write(w)
		return
	}
	data, err := assets.ReadFile("page/" + name)
	if err != nil {
		panic(err) // the names are constants of this file
	}
	keepToItself(w.Header())
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("Content-Type", map[string]string{
		".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	}[path.Ext(name)])
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data)
}
