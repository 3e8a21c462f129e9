package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coxswain/raft/examples/internal/apart"
	"github.com/coxswain/raft/internal/built"
	"github.com/coxswain/raft/internal/demo/client"
)

const (
	addresses   = "10.9.0." // they are in 10.9.0.0/16
	hostAddress = addresses + "1"
	bridge      = "pods"
	// patience bounds a whole run.
	patience = 3 * time.Minute
)

// inside plays the StatefulSet in the namespaces of this process.
func inside(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := network(dir); err != nil {
		return &apart.ImpossibleError{Why: "the network cannot be built: " + err.Error()}
	}
	conn, err := net.ListenPacket("udp4", hostAddress+":53")
	if err != nil {
		return err
	}
	c := &cluster{dir: dir, last: 1, names: serveNames(conn), http: client.NewHTTP(1, time.Second), pods: map[string]*running{}, began: time.Now()}
	if c.program, err = built.Raftkv(); err == nil {
		err = run(ctx, c)
	}
	c.close()
	if err = errors.Join(err, c.names.close()); err != nil {
		fmt.Println(c.logs())
	}
	return err
}

// network builds the network between the pods, and makes this process and the pods ask its DNS server.
func network(dir string) error {
	resolv := filepath.Join(dir, "resolv.conf")
	text := fmt.Sprintf("nameserver %s\nsearch %s svc.cluster.local cluster.local\noptions ndots:5\n", hostAddress, domain)
	if err := os.WriteFile(resolv, []byte(text), 0o644); err != nil {
		return err
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	if err := syscall.Mount(resolv, "/etc/resolv.conf", "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting /etc/resolv.conf: %w", err)
	}
	for _, line := range []string{
		"link set lo up", "link add " + bridge + " address 02:00:00:00:00:01 type bridge", "addr add " + hostAddress + "/16 dev " + bridge, "link set " + bridge + " up",
	} {
		if err := ip(line); err != nil {
			return err
		}
	}
	return nil
}

func ip(arguments string) error {
	if out, err := exec.Command("ip", strings.Fields(arguments)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", arguments, err, out)
	}
	return nil
}

// script begins a pod. It runs in a new network namespace, which it connects with the bridge in that of process $2.
const script = `
ip link set lo up
ip link add eth0 type veth peer name "$1" netns "$2"
nsenter --net=/proc/"$2"/ns/net ip link set "$1" master ` + bridge + ` up
ip addr add "$3"/16 dev eth0
ip link set eth0 up
shift 3
exec "$@"`
