package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/member"
	"github.com/coxswain/raft/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// forClients answers clients, on any member. Its errors are JSON that says whether anything was changed, and what to do.
func forClients(m *member.Member, state scores) http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(context.Context, *http.Request) (string, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
			defer cancel()
			text, err := answer(ctx, r)
			if err != nil {
				admin.Explain(m.Node(), err).Write(w)
				return
			}
			fmt.Fprintln(w, text)
		})
	}
	handle("GET /scores/{player}", func(ctx context.Context, r *http.Request) (total string, err error) {
		fresh, known := freshness[r.FormValue("read")]
		if !known {
			return "", &admin.Error{Code: admin.BadRequest, Message: "unknown kind of read", Remedy: "leave it out, or use lease or stale"}
		}
		err = m.ReadWith(ctx, fresh, func() { total = strconv.Itoa(state[r.PathValue("player")]) }) // no Apply runs meanwhile
		return total, err
	})
	handle("POST /scores/{player}", func(ctx context.Context, r *http.Request) (string, error) {
		points, err := strconv.Atoi(r.FormValue("points"))
		if err != nil {
			return "", &admin.Error{Code: admin.BadRequest, Message: "points is no number", Remedy: "add ?points=5"}
		}
		return propose(ctx, m, command{Player: r.PathValue("player"), Points: points})
	})
	handle("DELETE /scores/{player}", func(ctx context.Context, r *http.Request) (string, error) {
		if m.AppVersionMin() < 2 {
			return "", &admin.Error{Code: admin.AppVersion, Message: "some members run version 1", Remedy: "upgrade them first"}
		}
		return propose(ctx, m, command{Player: r.PathValue("player"), Remove: true})
	})
	return mux
}

// freshness has the values of the parameter read.
var freshness = map[string]raft.Consistency{
	"":      raft.Linearizable,       // everything that was acknowledged before
	"lease": raft.Lease,              // the same; a leader with a lease asks nobody
	"stale": raft.Stale(time.Second), // may lack the last second; no member asks anybody
}

// propose commits a command, through the leader, and returns the answer of Apply.
func propose(ctx context.Context, m *member.Member, c command) (string, error) {
	data, _ := json.Marshal(c) // of text and numbers, which cannot fail
	result, err := m.Propose(ctx, data)
	return string(result.Data), err
}

// forOperators serves status, members, health and metrics, and backups. It asks for no password.
func forOperators(m *member.Member) http.Handler {
	registry, mux := prometheus.NewRegistry(), http.NewServeMux()
	registry.MustRegister(metrics.MemberCollector(m))
	mux.Handle("/", admin.Handler(m, admin.Options{Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}))
	mux.HandleFunc("GET /backup", func(w http.ResponseWriter, r *http.Request) {
		if refused := admin.Guard(w, r, m); refused != nil { // by a browser, for a page of another site
			refused.Write(w)
		} else if _, err := m.Backup(r.Context(), w); err != nil {
			slog.Error("the backup failed", "error", err)
			panic(http.ErrAbortHandler) // breaks the connection, so that nobody takes the answer for a complete backup
		}
	})
	return mux
}
