package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/member"
	"github.com/coxswain/raft/metrics"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/session"
)

// handler answers clients, on any member.
type handler struct {
	*member.Member
	state scores // to be read within ReadWith only
}

func forClients(m *member.Member, state scores) http.Handler {
	h, mux := handler{m, state}, http.NewServeMux()
	mux.HandleFunc("GET /scores/{player}", h.answer(h.read))
	mux.HandleFunc("POST /scores/{player}", h.answer(h.add))
	mux.HandleFunc("DELETE /scores/{player}", h.answer(h.remove))
	mux.HandleFunc("POST /sessions", h.answer(h.openSession))
	return mux
}

// answer gives a request five seconds. An error is answered as JSON that says whether anything was changed, and what to do.
func (h handler) answer(f func(context.Context, *http.Request) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		text, err := f(ctx, r)
		if err != nil {
			admin.Explain(h.Node(), err).Write(w)
			return
		}
		fmt.Fprintln(w, text)
	}
}

func bad(remedy, message string) error {
	return &admin.Error{Code: admin.BadRequest, Message: message, Remedy: remedy}
}

// read answers with a player's total. The parameter read says how fresh it must be.
func (h handler) read(ctx context.Context, r *http.Request) (text string, err error) {
	fresh, known := map[string]raft.Consistency{
		"":      raft.Linearizable,       // everything that was acknowledged before
		"lease": raft.Lease,              // the same; the leader answers alone if leases are on
		"stale": raft.Stale(time.Second), // everything but the last second; this member answers alone
	}[r.FormValue("read")]
	if !known {
		return "", bad("leave it out, or use lease or stale", "read="+r.FormValue("read"))
	}
	err = h.ReadWith(ctx, fresh, func() { text = strconv.Itoa(h.state[r.PathValue("player")]) })
	return text, err
}

func (h handler) add(ctx context.Context, r *http.Request) (string, error) {
	points, err := strconv.Atoi(r.FormValue("points"))
	if err != nil {
		return "", bad("add ?points=5", "points is no number")
	}
	return h.propose(ctx, r, command{Player: r.PathValue("player"), Points: points})
}

func (h handler) remove(ctx context.Context, r *http.Request) (string, error) {
	if h.AppVersionMin() < version { // a member with the former version would not know the command
		return "", &admin.Error{Code: admin.AppVersion, Message: "not every member runs version 2", Remedy: "try again after the upgrade"}
	}
	return h.propose(ctx, r, command{Player: r.PathValue("player"), Remove: true})
}

// propose commits a command, through the leader, and returns the answer of Apply.
func (h handler) propose(ctx context.Context, r *http.Request, c command) (string, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	var result node.Result
	if text := r.Header.Get("Session"); text == "" {
		result, err = h.Propose(ctx, data)
	} else {
		id, wrong := session.ParseID(text)
		number, wrong2 := strconv.ParseUint(r.Header.Get("Session-Number"), 10, 64)
		if wrong != nil || wrong2 != nil {
			return "", bad("Session takes the id from POST /sessions, and Session-Number the number of this write: 1, 2, …", "no session")
		}
		// The floor says that the client waits for no lower number any more: it sends one write after another.
		result, err = session.Do(ctx, h, session.Command{ID: id, Number: number, Floor: number, Data: data})
		if errors.Is(err, session.ErrSessionExpired) || errors.Is(err, session.ErrSessionAnswered) {
			err = bad("read the total, and open another session", err.Error())
		}
	}
	return string(result.Data), err
}

func (h handler) openSession(ctx context.Context, _ *http.Request) (string, error) {
	s, err := session.Open(ctx, h, session.Config{})
	if err != nil {
		return "", err
	}
	return s.ID().String(), nil
}

// forOperators serves status, health, members and metrics (package admin), and backups. It authenticates nobody.
func forOperators(m *member.Member) http.Handler {
	registry, mux := prometheus.NewRegistry(), http.NewServeMux()
	registry.MustRegister(metrics.MemberCollector(m))
	mux.Handle("/", admin.Handler(m, admin.Options{Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}))
	mux.HandleFunc("GET /backup", func(w http.ResponseWriter, r *http.Request) {
		if refused := admin.Guard(w, r, m); refused != nil {
			refused.Write(w)
			return
		}
		if _, err := m.Backup(r.Context(), w); err != nil {
			slog.Error("the backup failed", "error", err)
			panic(http.ErrAbortHandler) // the connection breaks, so that nobody takes the answer for a complete backup
		}
	})
	return mux
}
