package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
)

const (
	livePause  = 250 * time.Millisecond // between two looks at the member
	gaugePause = time.Second            // between two messages, if nothing but gauges has changed
	happenings = 64                     // past ones that a new stream begins with
)

// status is what the event "status" of GET /events holds: the fields of Status, without the list of members and what changes at
// every look, and these. The first event of a stream holds all of it, and each further one what has changed, as a merge patch
// (RFC 7396). It comes at the next look if anything but a gauge has changed, and otherwise once a second, so that the client
// knows that the member runs. At rest it is next to empty.
type status struct {
	Status
	// Members replaces the list. The keys are the ids, and the incarnation behind the id of a member that replaces one of its id.
	Members map[string]MemberStatus `json:"members"`
	// LeaderSince is when this member first knew its leader, in milliseconds since 1970, by its own clock; 0: it knows none.
	LeaderSince int64 `json:"leader_since"`
	// AgeMS is how old the state of this member is at most; 0: nothing is proved.
	AgeMS float64 `json:"age_ms"`
	// Writes are those that clients have sent to this member, and that have succeeded, since the start of its process.
	Writes writes `json:"writes"`
}

// writes counts calls of Propose.
type writes struct {
	Count uint64 `json:"count"`
	SumMS uint64 `json:"sum_ms"` // how long all of them took together
	// Took counts them by how long they took. A key is the upper bound in milliseconds, or "more". Each is counted once.
	Took map[string]uint64 `json:"took"`
}

// news is something that has happened to a member. The event "happened" holds a list.
type news struct {
	// Start and Number make it the same thing in two streams: StartCount of the status, and node.Decision.Number. A client that
	// comes back sends the last ones that it knows as ?start= and &after=.
	Start  uint64 `json:"start"`
	Number uint64 `json:"number"`
	At     int64  `json:"at"` // in milliseconds since 1970, by the member's clock
	Kind   string `json:"kind"`
	Says   string `json:"says"` // a sentence, without the member's id at its beginning
}

// live is what all streams share.
type live struct {
	mu    sync.Mutex
	at    time.Time
	last  map[string]any // the status at that time; nobody changes it
	ended chan struct{}  // closed when a server of a stream shuts down
	known map[*http.Server]bool
	end   sync.Once
}

// now returns the status of the member. However many streams there are, it asks the member once a pause.
func (l *live) now(m Member) map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil && time.Since(l.at) < livePause/2 {
		return l.last
	}
	before := l.last
	l.last, l.at = lookAt(m), time.Now()
	if before != nil && before["leader"] == l.last["leader"] && before["term"] == l.last["term"] {
		l.last["leader_since"] = before["leader_since"] // else it would differ by the time that the two looks took
	}
	return l.last
}

// endWith makes all streams end once the server of the request shuts down: Server.Shutdown waits for them.
func (l *live) endWith(r *http.Request) {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	if server == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[server] {
		return
	}
	if l.known == nil {
		l.known = map[*http.Server]bool{}
	}
	l.known[server] = true
	server.RegisterOnShutdown(func() { l.end.Do(func() { close(l.ended) }) })
}

// events answers with what the member says about itself, as long as the client takes it. Nothing waits for a slow client: it
// gets the newest status when it takes it, and is dropped if it takes nothing for StreamTimeout.
func (h *handler) events(w http.ResponseWriter, r *http.Request) {
	leave, err := enter(h.streams, "read events")
	if err != nil {
		Explain(h.member, err).Write(w)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return
	}
	h.live.endWith(r)
	s := stream{member: h.member, live: &h.live, to: http.NewResponseController(w)}
	_ = s.to.SetReadDeadline(time.Time{}) // otherwise that of the server would end the stream
	s.after, _ = strconv.ParseUint(r.URL.Query().Get("after"), 10, 64)
	s.start, _ = strconv.ParseUint(r.URL.Query().Get("start"), 10, 64)
	looks := time.NewTicker(livePause)
	defer looks.Stop()
	for {
		_ = s.to.SetWriteDeadline(time.Now().Add(h.streamTimeout))
		if !s.send(w) {
			return
		}
		select {
		case <-looks.C:
		case <-r.Context().Done():
			return
		case <-h.live.ended:
			return
		}
	}
}

// stream is what one client knows.
type stream struct {
	member Member
	live   *live
	to     *http.ResponseController
	known  map[string]any // the status that was sent last
	sent   time.Time
	start  uint64 // the process whose decisions the client knows
	after  uint64 // the last decision that it knows
}

// send sends what is new. It returns false if the client has gone, or is too slow.
func (s *stream) send(w http.ResponseWriter) bool {
	now := s.live.now(s.member)
	var out bytes.Buffer
	if change := patch(s.known, now); s.known == nil || urgent(change) || time.Since(s.sent) >= gaugePause {
		s.known, s.sent = now, time.Now()
		event(&out, "status", change)
	}
	start, _ := now["start_count"].(float64)
	if latest := s.latest(uint64(start)); len(latest) > 0 {
		event(&out, "happened", latest)
	}
	if out.Len() == 0 {
		return true
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return false
	}
	return s.to.Flush() == nil
}

// latest returns what has happened since the client was last told.
func (s *stream) latest(start uint64) (latest []news) {
	if s.start != start {
		s.start, s.after = start, 0
	}
	for _, d := range s.member.Decisions(s.after) {
		s.after = d.Number
		if kind, says := happened(d.TraceEvent); says != "" {
			latest = append(latest, news{Start: start, Number: d.Number, At: d.At.UnixMilli(), Kind: kind, Says: says})
		}
	}
	return latest[max(0, len(latest)-happenings):]
}

func event(out *bytes.Buffer, name string, value any) {
	data, _ := json.Marshal(value) // the values are maps and structs of this package
	fmt.Fprintf(out, "event: %s\ndata: %s\n\n", name, data)
}

// lookAt returns the status of the member as a stream sends it.
func lookAt(m Member) (fields map[string]any) {
	n := m.Status()
	now := status{Status: describe(n, m.Members().Configuration), Members: map[string]MemberStatus{}, Writes: writesOf(m.Metrics().ProposeSeconds)}
	now.AgeMS, now.Snapshot.AgeMS = math.Ceil(milliseconds(n.Age)/100)*100, 0
	if n.Leader != "" {
		now.LeaderSince = time.Now().Add(-n.InOffice).UnixMilli()
	}
	for _, member := range now.Status.Members {
		if member.LastContactMS = math.Floor(member.LastContactMS/1000) * 1000; n.Role != raft.Leader {
			member.LastContactMS = -1 // followers send each other nothing
		}
		member.RoundTripMS, _ = strconv.ParseFloat(strconv.FormatFloat(member.RoundTripMS, 'g', 2, 64), 64)
		member.Lag = 0 // the client knows Last and Match
		key := member.ID
		if _, taken := now.Members[key]; taken {
			key += " " + member.Incarnation
		}
		now.Members[key] = member
	}
	data, _ := json.Marshal(now) // a struct of this package
	_ = json.Unmarshal(data, &fields)
	for _, name := range []string{"in_office_ms", "applying_ms", "backoff_ms", "log_bytes", "pending", "persisted"} {
		delete(fields, name)
	}
	return fields
}

func writesOf(h node.Histogram) writes {
	w := writes{Count: h.Count(), SumMS: uint64(h.Sum * 1000), Took: map[string]uint64{}}
	for i, count := range h.Counts {
		bound := "more"
		if i < len(h.Bounds) {
			bound = strconv.FormatFloat(h.Bounds[i]*1000, 'f', -1, 64)
		}
		if count > 0 {
			w.Took[bound] = count
		}
	}
	return w
}

// gauges are the fields of status that change all the time. Nobody needs them at once.
var gauges = []string{
	"last", "base", "commit", "applied", "age_ms", "writes", "snapshot", "match", "round_trip_ms", "state",
}

// urgent reports whether anything but gauges has changed.
func urgent(change map[string]any) bool {
	for name, value := range change {
		inner, isObject := value.(map[string]any)
		if !slices.Contains(gauges, name) && (!isObject || urgent(inner)) {
			return true
		}
	}
	return false
}

// patch returns the merge patch (RFC 7396) that makes after of before.
func patch(before, after map[string]any) map[string]any {
	change := map[string]any{}
	for name := range before {
		if _, stays := after[name]; !stays {
			change[name] = nil
		}
	}
	for name, value := range after {
		was, had := before[name]
		inner, isObject := value.(map[string]any)
		former, wasObject := was.(map[string]any)
		switch {
		case had && reflect.DeepEqual(was, value):
		case isObject && wasObject:
			change[name] = patch(former, inner)
		default:
			change[name] = value
		}
	}
	return change
}

// happened returns what a decision means to people, who do not follow each message. It returns "" if it means nothing to them.
func happened(d raft.TraceEvent) (kind, says string) {
	switch d.Kind {
	case raft.TraceLeader:
		if d.Text == "" {
			return "leader", fmt.Sprintf("leads term %d, the first one", d.Term)
		}
		return "leader", "took over " + d.Text
	case raft.TraceTransfer, raft.TraceVotelessTransfer, raft.TraceTakeover:
		return "leader", fmt.Sprintf("hands its leadership to %s", d.Peer)
	case raft.TraceQuorumLost:
		return "trouble", "stepped down: no quorum heard it for an election timeout"
	case raft.TraceCampaign:
		return "election", fmt.Sprintf("asks for votes in term %d", d.Term)
	case raft.TraceNews:
		return "election", fmt.Sprintf("learned that the process of %s, the leader, has ended", d.Peer)
	case raft.TraceSteppedDown:
		return "election", fmt.Sprintf("learned that %s leads no more", d.Peer)
	case raft.TracePeerLost:
		return "link", fmt.Sprintf("lost its connection to %s", d.Peer)
	case raft.TraceTruncated:
		return "trouble", fmt.Sprintf("dropped the entries %d to %d, which were never committed", d.ID.Index+1, d.Index)
	case raft.TraceTaken:
		return "snapshot", fmt.Sprintf("took a snapshot of entry %d", d.ID.Index)
	case raft.TraceInstalled:
		return "snapshot", fmt.Sprintf("received the snapshot of entry %d from %s", d.ID.Index, d.Peer)
	case raft.TraceRemoved:
		return "member", "was removed from the cluster"
	case raft.TraceChangeGivenUp, raft.TraceTakeFailed, raft.TraceDiskStalled, raft.TraceFSMHangs, raft.TraceStaleMember,
		raft.TraceMarked, raft.TraceSuspected, raft.TraceLaterVersion, raft.TraceRefused, raft.TraceSlowElection:
		return "trouble", "says: " + d.String()
	}
	return "", ""
}
