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

// Live is what GET /events sends about a member. The event "status" holds what has changed since the one before, as a merge
// patch (RFC 7396); the first one of a stream is whole. It comes within 250 ms if anything but a gauge has changed, and otherwise
// once a second. The event "happened" holds a list of Happened.
//
// Times and round trips are rounded, so that a cluster at rest sends next to nothing.
type Live struct {
	Status
	// Members replaces the list in Status. The keys are the incarnations.
	Members map[string]MemberStatus `json:"members"`
	// LeaderSince is when this member first knew its leader, in milliseconds since 1970, by its own clock; 0: it knows none.
	LeaderSince int64 `json:"leader_since"`
	// AgeMS is how old the state of this member is at most; 0: nothing is proved.
	AgeMS float64 `json:"age_ms"`
	// Writes are those that clients have sent to this member, and that have succeeded, since the start of its process.
	Writes Writes `json:"writes"`
}

// Writes counts calls of Propose.
type Writes struct {
	Count uint64 `json:"count"`
	SumMS uint64 `json:"sum_ms"` // how long all of them took together
	// Took counts them by how long they took. A key is the upper bound in milliseconds, or "more". Each is counted once.
	Took map[string]uint64 `json:"took"`
}

// Happened is something that has happened to a member.
type Happened struct {
	// Start and Number make it the same thing in two streams: StartCount of the status, and node.Decision.Number.
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
	l.last, l.at = asMap(LiveOf(m)), time.Now()
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
	if news := s.news(uint64(start)); len(news) > 0 {
		event(&out, "happened", news)
	}
	if out.Len() == 0 {
		return true
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return false
	}
	return s.to.Flush() == nil
}

// news returns what has happened since the client was last told.
func (s *stream) news(start uint64) (news []Happened) {
	if s.start != start {
		s.start, s.after = start, 0
	}
	for _, d := range s.member.Decisions(s.after) {
		s.after = d.Number
		if kind, says := happened(d.TraceEvent); says != "" {
			news = append(news, Happened{Start: start, Number: d.Number, At: d.At.UnixMilli(), Kind: kind, Says: says})
		}
	}
	return news[max(0, len(news)-happenings):]
}

func event(out *bytes.Buffer, name string, value any) {
	data, _ := json.Marshal(value) // the values are maps and structs of this package
	fmt.Fprintf(out, "event: %s\ndata: %s\n\n", name, data)
}

// LiveOf returns the status that a stream of GET /events begins with.
func LiveOf(m Member) Live {
	n := m.Status()
	l := Live{Status: describe(n, m.Members().Configuration), Members: map[string]MemberStatus{}, Writes: writesOf(m.Metrics().ProposeSeconds)}
	l.AgeMS = math.Ceil(milliseconds(n.Age)/100) * 100
	if n.Leader != "" {
		l.LeaderSince = time.Now().Add(-n.InOffice).UnixMilli()
	}
	for _, member := range l.Status.Members {
		if member.LastContactMS > 0 {
			member.LastContactMS = math.Floor(member.LastContactMS/1000) * 1000
		}
		member.RoundTripMS, member.BackoffMS = twoDigits(member.RoundTripMS), 0
		l.Members[member.Incarnation] = member
	}
	// These differ at every look.
	l.InOfficeMS, l.ApplyingMS, l.BackoffMS, l.Snapshot.AgeMS, l.Status.Members = 0, 0, 0, 0, nil
	return l
}

// twoDigits rounds to two significant digits.
func twoDigits(x float64) float64 {
	if x <= 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-1)
	return math.Round(x/unit) * unit
}

func writesOf(h node.Histogram) Writes {
	w := Writes{Count: h.Count(), SumMS: uint64(h.Sum * 1000), Took: map[string]uint64{}}
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

// gauges are the fields of Live that change all the time. Nobody needs them at once.
var gauges = []string{
	"last", "log_bytes", "base", "persisted", "commit", "applied", "pending", "age_ms", "writes", "snapshot",
	"match", "lag", "round_trip_ms", "state",
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

func asMap(value any) (fields map[string]any) {
	data, _ := json.Marshal(value) // a struct of this package
	_ = json.Unmarshal(data, &fields)
	return fields
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
		return "log", fmt.Sprintf("dropped the entries %d to %d, which were never committed", d.ID.Index+1, d.Index)
	case raft.TraceTaken:
		return "snapshot", fmt.Sprintf("took a snapshot of entry %d", d.ID.Index)
	case raft.TraceInstalled:
		return "snapshot", fmt.Sprintf("received the snapshot of entry %d from %s", d.ID.Index, d.Peer)
	case raft.TraceBootstrapped:
		return "member", fmt.Sprintf("holds the first entry, written by %s", d.Peer)
	case raft.TraceRemoved:
		return "member", "was removed from the cluster"
	case raft.TraceChangeGivenUp, raft.TraceTakeFailed, raft.TraceDiskStalled, raft.TraceFSMHangs, raft.TraceStaleMember,
		raft.TraceMarked, raft.TraceSuspected, raft.TraceLaterVersion, raft.TraceRefused, raft.TraceSlowElection:
		return "trouble", "says: " + d.String()
	}
	return "", ""
}
