// Command queue is a durable queue of jobs: each is done once, whatever is retried or killed. Start three members
//
//	queue "$(cat members.json)" n1 /var/lib/queue
//
// with a list and certificates as in ../embed, and use any of them:
//
//	queue "$(cat members.json)" enqueue "send the letter"
//	queue "$(cat members.json)" work all
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/boltfsm"
	"github.com/coxswain/raft/member"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/session"
)

// serve runs a member, which takes entries of sessions over HTTP, until the context ends.
func serve(ctx context.Context, self raft.Member, initial []raft.Member, dir string) error {
	state, err := boltfsm.Open(filepath.Join(dir, "jobs.db"), apply, nil)
	if err != nil {
		return err
	}
	defer state.Close()
	fsm, err := session.Wrap(state)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, string(self.ID))
	m, err := member.Start(ctx, member.Config{
		ID: self.ID, Cluster: "queue", Dir: filepath.Join(dir, "data"), Listen: self.Address, Initial: initial,
		TLS:    member.TLSFiles(filepath.Join(dir, "ca.pem"), name+".pem", name+".key"),
		Logger: node.Slog(slog.Default()),
	}, fsm)
	if err != nil {
		return err
	}
	web := &http.Server{Addr: strings.TrimPrefix(self.Meta, "http://"), Handler: handler{m}}
	failed := make(chan error, 1)
	go func() { failed <- web.ListenAndServe() }()
	select {
	case <-ctx.Done():
	case <-m.Done(): // by itself; Shutdown says why
	case err = <-failed:
	}
	ending, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, m.Shutdown(ending, web))
}

// handler answers clients of any member: GET names the cluster, and POST proposes an entry of a session.
type handler struct{ *member.Member }

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		_ = json.NewEncoder(w).Encode(h.ClusterID())
		return
	}
	entry, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err == nil {
		var result node.Result
		if result, err = h.ProposeSession(r.Context(), entry); err == nil {
			_ = json.NewEncoder(w).Encode(result)
			return
		}
	}
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}

// remote is a session.Proposer that asks one member, and after a failure the next one. Whatever fails, the session tries again:
// the command takes effect once.
type remote struct {
	urls []string
	at   atomic.Uint64
}

func (c *remote) ProposeSession(ctx context.Context, entry []byte) (result node.Result, err error) {
	return result, c.ask(ctx, http.MethodPost, entry, &result)
}

func (c *remote) ClusterID() (id raft.ClusterID) {
	_ = c.ask(context.Background(), http.MethodGet, nil, &id) // none: the session asks again
	return id
}

func (c *remote) ask(ctx context.Context, method string, body []byte, answer any) error {
	at := c.at.Load()
	request, err := http.NewRequestWithContext(ctx, method, c.urls[at%uint64(len(c.urls))], bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err == nil {
		defer response.Body.Close()
		if response.StatusCode == http.StatusOK && json.NewDecoder(response.Body).Decode(answer) == nil {
			return nil
		}
		err = errors.New(response.Status)
	}
	c.at.CompareAndSwap(at, at+1)
	return fmt.Errorf("%s: %w: %w", request.URL, node.ErrOutcomeUnknown, err)
}

// queue is what programs use.
type queue struct{ *session.Session }

func (q queue) do(ctx context.Context, c command) (j job, err error) {
	text, _ := json.Marshal(c)
	result, err := q.Propose(ctx, text)
	if err == nil {
		err = json.Unmarshal(result.Data, &j)
	}
	return j, err
}

// work does jobs until there are no more. A job that takes longer than its lease may be done by somebody else as well.
func (q queue) work(ctx context.Context, do func(payload []byte)) error {
	for {
		j, err := q.do(ctx, command{Lease: 10 * time.Second})
		if err != nil || j.ID == 0 {
			return err
		}
		do(j.Payload)
		if _, err := q.do(ctx, command{Done: &j}); err != nil {
			return err
		}
	}
}

func run(ctx context.Context, members, what, argument string) error {
	var all []raft.Member
	if err := json.Unmarshal([]byte(members), &all); err != nil {
		return err
	}
	if self := slices.IndexFunc(all, func(m raft.Member) bool { return string(m.ID) == what }); self >= 0 {
		return serve(ctx, all[self], all, argument)
	}
	through := &remote{}
	for _, m := range all {
		through.urls = append(through.urls, m.Meta)
	}
	s, err := session.Open(ctx, through, session.Config{})
	if err != nil {
		return err
	}
	q := queue{s}
	if what == "work" {
		err = q.work(ctx, func(payload []byte) { fmt.Printf("%s\n", payload) })
	} else {
		_, err = q.do(ctx, command{Enqueue: []byte(argument)})
	}
	return errors.Join(err, s.Close(ctx))
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}
