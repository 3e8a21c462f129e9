// Command singleton runs one of the processes of a service of which one process at a time does a job:
//
//	singleton "$(cat members.json)" n1 /var/lib/singleton http://10.0.0.9:9000
//
// The first argument lists all members: [{"ID": "n1", "Address": "127.0.0.1:7001"}, …]. The last one is the resource that the
// job writes to. Resource is an http.Handler that refuses the writes of earlier leaders: see docs/work-on-the-leader.md.
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
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/member"
	"github.com/coxswain/raft/node"
)

// Write is a write of the job. Term is its fencing token; Number counts the writes of one term.
type Write struct {
	From   raft.NodeID
	Term   raft.Term
	Number int
}

// Resource is what the job writes to. Here it is in memory; a real one stores the latest write with its data, in one transaction.
type Resource struct {
	mu     sync.Mutex
	latest Write
}

// ServeHTTP takes a write, unless one of a later term, or a later one of this term, came before: 409.
func (r *Resource) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var next Write
	if err := json.NewDecoder(request.Body).Decode(&next); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if next.Term < r.latest.Term || next.Term == r.latest.Term && next.Number <= r.latest.Number {
		http.Error(w, fmt.Sprintf("%+v came before", r.latest), http.StatusConflict)
		return
	}
	r.latest = next
}

// job writes to the resource until ctx ends. count is the number of its last write.
func job(ctx context.Context, self raft.NodeID, term raft.Term, count *int, resource string) error {
	for {
		*count++
		body, _ := json.Marshal(Write{self, term, *count}) // cannot fail
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, resource, bytes.NewReader(body))
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusConflict {
			<-ctx.Done() // a later leader has written: this member will soon know that it no longer leads
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond): // a resource that cannot be reached is tried again
		}
	}
}

// nothing is a state machine without a state: this cluster only decides who leads.
type nothing struct{}

func (nothing) Apply([]raft.Entry, [][]byte) error                     { return nil }
func (nothing) Snapshot() (raft.FSMSnapshot, error)                    { return nothing{}, nil }
func (nothing) Restore(context.Context, raft.EntryID, io.Reader) error { return nil }
func (nothing) WriteTo(ctx context.Context, _ io.Writer) error         { return ctx.Err() }
func (nothing) Close() error                                           { return nil }

// run runs one member until ctx ends.
func run(ctx context.Context, self raft.Member, initial []raft.Member, dir, resource string) error {
	m, err := member.Start(ctx, member.Config{
		ID: self.ID, Cluster: "singleton", Dir: dir, Listen: self.Address, Initial: initial, Logger: node.Slog(slog.Default()),
	}, nothing{})
	if err != nil {
		return err
	}
	count := 0
	err = m.RunAsLeader(ctx, func(ctx context.Context, term raft.Term) error { return job(ctx, self.ID, term, &count, resource) })
	if ctx.Err() != nil {
		err = nil
	}
	ending, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, m.Shutdown(ending))
}

func main() {
	var all []raft.Member
	if err := json.Unmarshal([]byte(os.Args[1]), &all); err != nil {
		log.Fatal(err)
	}
	self := slices.IndexFunc(all, func(m raft.Member) bool { return string(m.ID) == os.Args[2] })
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, all[self], all, os.Args[3], os.Args[4]); err != nil {
		log.Fatal(err)
	}
}
