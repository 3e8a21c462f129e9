//go:build nopeers

package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

// The tag nopeers leaves the other libraries out of this build. "make test" sets the tag, because it needs none of these
// libraries. They take longer to download and compile than everything else.
var errLeftOut = errors.New("the other libraries are left out of this build: build it without the tag nopeers")

type leftOut struct{}

var openRaftBolt, openRaftWAL, byDefault, bigBatches leftOut

func startHashicorp(_, _ leftOut) func(Member) (replica, error) { return startDragonboat }

func startEtcdRaft(_, _ bool) func(Member) (replica, error) { return startDragonboat }

func startDragonboat(Member) (replica, error) { return nil, errLeftOut }

func newEtcd() *cobra.Command {
	return &cobra.Command{Use: "etcd", Hidden: true, RunE: func(*cobra.Command, []string) error { return errLeftOut }}
}

func etcdArguments(storeMember) []string { return nil }

func connectEtcd(context.Context, []storeMember, int) (put, error) { return nil, errLeftOut }
