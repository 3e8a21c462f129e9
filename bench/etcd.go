//go:build !nopeers

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

func etcdArguments(m storeMember) []string {
	var initial []string
	for i, address := range m.Peers {
		initial = append(initial, fmt.Sprintf("n%d=http://%s", i+1, address))
	}
	return []string{"etcd", m.Name, m.Dir, m.peer(), m.host(), strings.Join(initial, ",")}
}

// newEtcd returns the command that a member of etcd runs. All settings but the log level are etcd's defaults.
func newEtcd() *cobra.Command {
	return &cobra.Command{
		Use: "etcd NAME DIR PEER HOST INITIAL", Hidden: true, Args: cobra.ExactArgs(5),
		RunE: func(_ *cobra.Command, args []string) error {
			peer, client := url.URL{Scheme: "http", Host: args[2]}, url.URL{Scheme: "http", Host: args[3]}
			cfg := embed.NewConfig()
			cfg.Name, cfg.Dir, cfg.InitialCluster, cfg.LogLevel = args[0], args[1], args[4], "error"
			cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
			cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
			server, err := embed.StartEtcd(cfg)
			if err != nil {
				return err
			}
			go func() {
				_, _ = io.Copy(io.Discard, os.Stdin)
				os.Exit(0) // the driver is gone
			}()
			return <-server.Err()
		},
	}
}

// connectEtcd waits for a leader.
func connectEtcd(ctx context.Context, members []storeMember, callers int) (put, error) {
	leader, err := etcdLeader(ctx, members[0].Hosts)
	if err != nil {
		return nil, err
	}
	clients := make([]*clientv3.Client, max(1, min(callers, 1024)/callersPerConnection))
	for i := range clients {
		if clients[i], err = connectTo(leader); err != nil {
			return nil, err
		}
	}
	var turn atomic.Uint64
	return func(ctx context.Context, key string, value []byte) error {
		_, err := clients[turn.Add(1)%uint64(len(clients))].Put(ctx, key, string(value))
		return err
	}, nil
}

func connectTo(host string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{"http://" + host}, DialTimeout: time.Second, Logger: zap.NewNop()})
}

func etcdLeader(ctx context.Context, hosts []string) (string, error) {
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		for _, host := range hosts {
			if leads, err := etcdLeads(ctx, host); err == nil && leads {
				return host, nil
			}
		}
	}
	return "", errors.New("etcd has no leader")
}

func etcdLeads(ctx context.Context, host string) (leads bool, err error) {
	client, err := connectTo(host)
	if err != nil {
		return false, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	status, err := client.Status(ctx, host)
	return err == nil && status.Leader == status.Header.MemberId, err
}
