package screen

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/local"
)

// Limits of the page's server. It listens on this machine only.
const (
	pagePort        = firstPort - 1 // if it is free
	pageStreamsMax  = 16
	pageTimeout     = 10 * time.Second // in which a browser takes what is sent, and for a request
	pressTimeout    = 10 * time.Second // in which the loop begins what a button asks for
	pageSaidMax     = 8                // latest lines that are sent to a page
	pageNumberPause = time.Second      // between two messages in which nothing but numbers has changed
)

// page serves the page of package admin, with buttons. It belongs to the process of the demo, which can kill the members, and
// outlives all of them. The page reads what the members say from the members.
type page struct {
	listener net.Listener
	server   *http.Server
	serving  sync.WaitGroup
	presses  chan press
	ended    chan struct{}
	streams  chan struct{} // a semaphore of pageStreamsMax

	mu    sync.Mutex
	state map[string]string // the state of the demo, by field, each in JSON
	said  []saying
	count int // of what was said
}

// press is a request of a button. The loop of the demo carries it out, as it does for a key.
type press struct {
	button, member string
	outcome        chan *admin.Error // nil: it has begun
}

// saying is a line that the demo has said.
type saying struct {
	Number int    `json:"number"`
	At     int64  `json:"at"` // in milliseconds since 1970
	Says   string `json:"says"`
}

func openPage() (*page, error) {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", pagePort))
	if err != nil {
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("the page of the demo: %w", err)
		}
	}
	p := &page{
		listener: listener, presses: make(chan press), ended: make(chan struct{}), streams: make(chan struct{}, pageStreamsMax), state: map[string]string{},
	}
	routes := http.NewServeMux()
	for path := range admin.Page {
		routes.HandleFunc("GET "+path, p.page)
	}
	routes.Handle("GET /{$}", http.RedirectHandler(admin.LivePath, http.StatusFound))
	routes.HandleFunc("GET "+admin.EventsPath, p.events)
	routes.HandleFunc("POST /demo/{button}", p.press)
	p.server = &http.Server{Handler: guarded(routes), ReadHeaderTimeout: pageTimeout, ReadTimeout: pageTimeout, MaxHeaderBytes: 16 << 10}
	p.serving.Go(func() { _ = p.server.Serve(listener) }) // until close
	return p, nil
}

func (p *page) origin() string { return "http://" + p.listener.Addr().String() }

func (p *page) close() {
	close(p.ended)
	_ = p.server.Close()
	p.serving.Wait()
}

// guarded refuses requests for names that are not of this machine, and changes that a browser sends for pages of other sites:
// such a page could make the browser press the buttons.
func guarded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, err := net.SplitHostPort(r.Host)
		if err != nil || name != "localhost" && !net.ParseIP(name).IsLoopback() {
			(&admin.Error{Code: admin.WrongHost, Message: fmt.Sprintf("the request is for %q, which is not the demo", r.Host),
				Remedy: "open the page at the URL that the demo prints", Status: http.StatusForbidden}).Write(w)
			return
		}
		if err := new(http.CrossOriginProtection).Check(r); err != nil {
			(&admin.Error{Code: admin.CrossSite, Message: "a browser sent this for a page of another site",
				Remedy: "press the buttons on the page that the demo serves", Status: http.StatusForbidden}).Write(w)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// page answers with a file of the page. The members know the page by one origin.
func (p *page) page(w http.ResponseWriter, r *http.Request) {
	if "http://"+r.Host != p.origin() {
		http.Redirect(w, r, p.origin()+r.URL.Path, http.StatusFound)
		return
	}
	admin.ServePage(w, r)
}

// press lets the loop carry out what a button asks for, and waits until it has begun.
func (p *page) press(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), pressTimeout)
	defer cancel()
	asked := press{r.PathValue("button"), r.URL.Query().Get("member"), make(chan *admin.Error, 1)}
	select {
	case p.presses <- asked:
	case <-ctx.Done():
		(&admin.Error{Code: admin.Overloaded, Message: "the demo is busy, or ends", Remedy: "look at its terminal, and press again"}).Write(w)
		return
	}
	if err := <-asked.outcome; err != nil {
		err.Write(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// say takes over a line that the demo says.
func (p *page) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	p.said = append(p.said, saying{p.count, time.Now().UnixMilli(), text})
	p.said = p.said[max(0, len(p.said)-pageSaidMax):]
	p.set("said", p.said)
}

// set sets a field of the state. p.mu is held.
func (p *page) set(name string, value any) {
	data, _ := json.Marshal(value) // the values are structs of this package, and numbers
	p.state[name] = string(data)
}

// events sends the state of the demo as long as the browser takes it: first all of it, then the fields that have changed.
func (p *page) events(w http.ResponseWriter, r *http.Request) {
	select {
	case p.streams <- struct{}{}:
		defer func() { <-p.streams }()
	default:
		(&admin.Error{Code: admin.Overloaded, Message: fmt.Sprintf("%d pages are open", pageStreamsMax), Remedy: "close one of them"}).Write(w)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	to := http.NewResponseController(w)
	_ = to.SetReadDeadline(time.Time{}) // otherwise that of the server would end the stream
	looks := time.NewTicker(livePause)
	defer looks.Stop()
	var known map[string]string
	var sent time.Time
	for {
		if now, change, urgent := p.since(known); urgent || time.Since(sent) >= pageNumberPause {
			_ = to.SetWriteDeadline(time.Now().Add(pageTimeout))
			_, err := fmt.Fprintf(w, "event: demo\ndata: %s\n\n", change)
			if err != nil || to.Flush() != nil {
				return
			}
			known, sent = now, time.Now()
		}
		select {
		case <-looks.C:
		case <-r.Context().Done():
			return
		case <-p.ended:
			return
		}
	}
}

// since returns the state, the fields that differ from the known ones, as JSON, and whether one of these is more than a number.
func (p *page) since(known map[string]string) (now map[string]string, change []byte, urgent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(p.state)) {
		value := p.state[name]
		if known[name] == value {
			continue
		}
		urgent = urgent || value[0] == '[' || len(known) == 0
		fmt.Fprintf(&out, ",%q:%s", name, value)
	}
	return maps.Clone(p.state), append(append([]byte{'{'}, bytes.TrimPrefix(out.Bytes(), []byte(","))...), '}'), urgent
}

// shown is a member as the demo knows it.
type shown struct {
	ID    string `json:"id"`
	URL   string `json:"url"`
	State string `json:"state"`
}

// The states of a member.
const (
	stateRunning = "running"
	stateDown    = "down"
	stateFrozen  = "frozen"
	stateCut     = "cut"
	stateRemoved = "removed"
)

// state returns the state of a member. d.mu is held.
func (d *demo) state(id string) string {
	p := d.cluster.Process(id)
	switch {
	case d.removed[id]:
		return stateRemoved
	case !p.Running():
		return stateDown
	case p.Frozen():
		return stateFrozen
	case p.IsCut():
		return stateCut
	}
	return stateRunning
}

// publish tells the page what the demo knows.
func (d *demo) publish() {
	d.mu.Lock()
	var members []shown
	for _, n := range d.cluster.Nodes {
		members = append(members, shown{n.ID, n.URL(), d.state(n.ID)})
	}
	d.mu.Unlock()
	v := d.workload.Verdict()
	d.page.mu.Lock()
	defer d.page.mu.Unlock()
	d.page.set("members", members)
	d.page.set("freezes", runtime.GOOS != "windows")
	d.page.set("acknowledged", v.Acknowledged)
	d.page.set("lost", v.Lost)
	d.page.set("unknown", v.Unknown)
}

// buttons are what a button does, by its name, and the states of a member in which it does it.
var buttons = map[string][]string{
	"kill": {stateRunning, stateCut, stateFrozen}, "freeze": {stateRunning, stateCut}, "resume": {stateFrozen}, "cut": {stateRunning},
	"heal": {stateCut}, "restart": {stateDown}, "replace": {stateRunning, stateDown}, "remove": {stateRunning, stateDown},
}

// press carries out what a button asks for. Without a member, it does what the key does. The error says why it does nothing.
// What comes of it is said.
func (d *demo) press(ctx context.Context, button, id string) *admin.Error {
	if key := map[string]byte{"kill": 'k', "restart": 'r', "add": 'a'}[button]; id == "" && key != 0 {
		d.handleKey(ctx, key)
		return nil
	}
	states, known := buttons[button]
	if !known {
		return &admin.Error{Code: admin.NotFound, Message: fmt.Sprintf("there is no button %q", button), Remedy: "reload the page"}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.cluster.Nodes, func(n local.Node) bool { return n.ID == id && !d.removed[n.ID] })
	if i < 0 {
		return &admin.Error{Code: admin.UnknownMember, Message: fmt.Sprintf("there is no member %q any more", id), Remedy: "the page shows those that there are"}
	}
	if state := d.state(id); !slices.Contains(states, state) {
		return &admin.Error{Code: admin.Refused, Message: fmt.Sprintf("%s is %s", id, words[state]), Remedy: "its buttons show what can be done to it"}
	}
	n := d.cluster.Nodes[i]
	switch button {
	case "resume", "heal", "restart":
		d.mend(n)
	case "kill", "freeze", "cut":
		if d.waits() {
			return nil
		}
		leader, found := d.cluster.Leader(ctx)
		d.breakMember(ctx, id, map[string]string{"kill": killed, "freeze": frozen, "cut": cutOff}[button], found && leader.ID == id, false)
	case "replace":
		if d.mayChange() {
			d.empty(ctx, n)
		}
	case "remove":
		if d.mayChange() {
			d.remove(ctx, id)
		}
	}
	return nil
}

var words = map[string]string{stateRunning: "running", stateDown: "down", stateFrozen: "frozen", stateCut: "cut off", stateRemoved: "removed"}
