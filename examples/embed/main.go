// Command embed runs one of the processes of a replicated counter:
//
//	embed "$(cat members.json)" n1 /var/lib/embed
//
// The first argument lists all members, with the URL for their clients in Meta:
//
//	[{"ID": "n1", "Address": "10.0.0.1:7000", "Meta": "http://10.0.0.1:8000"}, …]
//
// The directory has the certificates ca.pem, n1.pem and n1.key. The data of the member goes into its subdirectory data.
package main

import (
	"context"
	"encoding/binary"
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
	"syscall"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/member"
	"github.com/coxswain/raft/node"
)

// counter is the state machine: every member applies the same commands in the same order.
type counter struct{ total uint64 }

func (c *counter) Apply(batch []raft.Entry, results [][]byte) error {
	for i, entry := range batch {
		c.total += uint64(len(entry.Data)) // a command counts its bytes
		results[i] = binary.BigEndian.AppendUint64(nil, c.total)
	}
	return nil
}

// Snapshot freezes the state, frozen.WriteTo writes it, and Restore reads it.
func (c *counter) Snapshot() (raft.FSMSnapshot, error) { return frozen{c.total}, nil }
func (c *counter) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error {
	return binary.Read(r, binary.BigEndian, &c.total)
}

type frozen struct{ total uint64 }

func (f frozen) WriteTo(ctx context.Context, w io.Writer) error {
	return errors.Join(ctx.Err(), binary.Write(w, binary.BigEndian, f.total))
}
func (f frozen) Close() error { return nil }

// run runs one member, and its HTTP server, until the context ends.
func run(ctx context.Context, self raft.Member, initial []raft.Member, dir string) error {
	name, state := filepath.Join(dir, string(self.ID)), &counter{}
	m, err := member.Start(ctx, member.Config{
		ID: self.ID, Cluster: "example", Dir: filepath.Join(dir, "data"), Listen: self.Address, Initial: initial,
		TLS:    member.TLSFiles(filepath.Join(dir, "ca.pem"), name+".pem", name+".key"), // read again when they change
		Logger: node.Slog(slog.Default()),
	}, state)
	if err != nil {
		return err
	}
	web, failed := &http.Server{Addr: strings.TrimPrefix(self.Meta, "http://"), Handler: handler{m, state}}, make(chan error, 1)
	go func() { failed <- web.ListenAndServe() }()
	select {
	case <-ctx.Done():
	case <-m.Done(): // by itself; Shutdown says why
	case err = <-failed:
	}
	ending, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, m.Shutdown(ending, web)) // transfers leadership, lets requests finish, closes the member
}

// handler answers clients of any member: GET reads the counter, and POST counts.
type handler struct {
	*member.Member
	state *counter
}

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	total, err := h.answer(ctx, r.Method)
	if err != nil { // errors.Is(err, node.ErrOutcomeUnknown): it may have been counted
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, total)
}

func (h handler) answer(ctx context.Context, method string) (total uint64, err error) {
	if method == http.MethodGet { // the state has everything that was acknowledged before
		err = h.Node().Read(ctx, func() { total = h.state.total })
		return total, err
	}
	result, err := h.Propose(ctx, []byte("+")) // returns once a majority has stored it and the leader has applied it
	if err == nil {
		total = binary.BigEndian.Uint64(result.Data)
	}
	return total, err
}

func main() {
	var all []raft.Member
	if err := json.Unmarshal([]byte(os.Args[1]), &all); err != nil {
		log.Fatal(err)
	}
	self := slices.IndexFunc(all, func(m raft.Member) bool { return string(m.ID) == os.Args[2] })
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, all[self], all, os.Args[3]); err != nil {
		log.Fatal(err)
	}
}
