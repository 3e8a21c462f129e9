// Command scores runs one member of a service that keeps the points of players. docs/tutorial.md builds it, step by step.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"log/slog"
	"net/http"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/member"
	"github.com/coxswain/raft/node"
)

var (
	id        = flag.String("id", "", "id of this member, such as n1")
	dir       = flag.String("dir", "", "directory of its data, for this member alone")
	raftAddr  = flag.String("raft", "", "host:port for the other members")
	httpAddr  = flag.String("http", "", "host:port for clients")
	adminAddr = flag.String("admin", "", "host:port for operators and Prometheus: let nobody else reach it")
	founders  = flag.String("founders", "n1,n2,n3", "ids of the members that begin the cluster: the same on all, for ever")
	seeds     = flag.String("seeds", "", "-raft addresses of all members, separated by commas")
	certs     = flag.String("certs", "", "directory with ca.pem, ID.pem and ID.key; without it, all members are on one machine")
)

// run runs the member and its two HTTP servers until the context ends.
func run(ctx context.Context) error {
	config := member.Config{
		ID: raft.NodeID(*id), Cluster: "scores", Dir: *dir, Listen: *raftAddr,
		Meta:  "http://" + *adminAddr, // where the tools of operators find this member
		Seeds: member.Addresses(strings.Split(*seeds, ",")...),
		Node:  node.Config{AppVersion: version}, Logger: node.Slog(slog.Default()),
	}
	for _, founder := range strings.Split(*founders, ",") {
		config.Founders = append(config.Founders, raft.NodeID(founder))
	}
	if *certs != "" {
		name := filepath.Join(*certs, *id)
		config.TLS = member.TLSFiles(filepath.Join(*certs, "ca.pem"), name+".pem", name+".key")
	}
	state := scores{}
	m, err := member.Start(ctx, config, state)
	if err != nil {
		return err
	}
	clients := &http.Server{Addr: *httpAddr, Handler: forClients(m, state), ReadTimeout: 10 * time.Second}
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
	return errors.Join(err, m.Shutdown(ending, clients, operators)) // transfers leadership, lets requests finish
}

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}
