// Command scores runs one member of a replicated table of scores. See scores -help.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/member"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/session"
)

var (
	id        = flag.String("id", "", "id of this member, such as n1")
	dir       = flag.String("dir", "", "directory of its data, for this member alone")
	peerAddr  = flag.String("raft", "", "host:port for the other members")
	httpAddr  = flag.String("http", "", "host:port for clients")
	adminAddr = flag.String("admin", "", "host:port for operators and Prometheus, who need no password: let nobody else reach it")
	founders  = flag.String("founders", "n1,n2,n3", "ids of the members that begin the cluster: the same on all, for ever")
	seeds     = flag.String("seeds", "", "addresses (-raft) of members, separated by commas: the same on all")
	certs     = flag.String("certs", "", "directory with ca.pem, ID.pem and ID.key; without it, members must be on one machine")
)

// run runs the member and its two HTTP servers until the context ends.
func run(ctx context.Context) error {
	config := member.Config{
		ID: raft.NodeID(*id), Cluster: "scores", Dir: *dir, Listen: *peerAddr, Meta: "http://" + *adminAddr,
		Seeds:  member.Addresses(strings.Split(*seeds, ",")...),
		Node:   node.Config{AppVersion: version},
		Logger: node.Slog(slog.Default()),
	}
	for _, founder := range strings.Split(*founders, ",") {
		config.Founders = append(config.Founders, raft.NodeID(founder))
	}
	if *certs != "" { // read again when the files change
		name := filepath.Join(*certs, *id)
		config.TLS = member.TLSFiles(filepath.Join(*certs, "ca.pem"), name+".pem", name+".key")
	}
	state := scores{}
	fsm, err := session.Wrap(state) // it remembers answers, so that repeated commands count once
	if err != nil {
		return err
	}
	m, err := member.Start(ctx, config, fsm)
	if err != nil {
		return err
	}
	clients := &http.Server{Addr: *httpAddr, Handler: forClients(m, state), ReadTimeout: 10 * time.Second, MaxHeaderBytes: 8 << 10}
	operators := &http.Server{Addr: *adminAddr, Handler: forOperators(m), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 2)
	go func() { failed <- clients.ListenAndServe() }()
	go func() { failed <- operators.ListenAndServe() }()
	select {
	case <-ctx.Done():
	case <-m.Done(): // by itself; Shutdown says why
	case err = <-failed:
	}
	ending, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, m.Shutdown(ending, clients, operators)) // transfers leadership, lets requests finish, closes the member
}

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}
