package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/testnet"
)

const (
	members  = 3
	raftPort = ":7000"
	httpPort = ":4000"
	stopMax  = 10 * time.Second // in which a member may end by itself
	poll     = 20 * time.Millisecond
)

// host is a computer on the network. Its number there is also the last part of its address.
type host struct {
	id     string // of the member that runs here
	number int
	keeper *local.Process // keeps the network namespace
	member *local.Process // nil: it does not run
}

func (h *host) address() string { return testnet.HostAddress(h.number) }
func (h *host) url() string     { return "http://" + h.address() + httpPort }

// cluster has the hosts. They share the file system, on which each member has a directory of its own.
type cluster struct {
	dir, program string
	wires        *testnet.Switch
	hosts        [members]*host // by member
	last         int            // number of the latest host
	http         *http.Client
	began        time.Time
}

// say prints a line with the time since the beginning.
func (c *cluster) say(format string, args ...any) {
	fmt.Printf("%6.2f s  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

// certify makes the certificates of all members.
func (c *cluster) certify() error {
	for _, args := range [][]string{{"authority", "--cluster", "hosts"}, {"member", "n1", "n2", "n3"}} {
		command := exec.Command(c.program, append([]string{"certs", "--dir", c.file("certs")}, args...)...)
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("certs %s: %w: %s", args, err, out)
		}
	}
	return nil
}

func (c *cluster) file(path ...string) string {
	return filepath.Join(append([]string{c.dir}, path...)...)
}

// connect puts the host of a member on the network, with a new address.
func (c *cluster) connect(place int) (err error) {
	c.last++
	h := &host{id: fmt.Sprintf("n%d", place+1), number: c.last}
	if h.keeper, err = local.StartProcess("unshare", []string{"--net", "sleep", "infinity"}, c.file("keeper.log")); err != nil {
		return err
	}
	c.hosts[place] = h
	if err := c.apart(h.keeper.PID()); err != nil {
		return err
	}
	c.say("   the host of %s is at %s", h.id, h.address())
	return c.wires.Connect(h.number, h.keeper.PID())
}

// apart waits until a process has left the network namespace of this one.
func (c *cluster) apart(pid int) error {
	here, err := os.Readlink("/proc/self/ns/net")
	for began := time.Now(); err == nil; time.Sleep(time.Millisecond) {
		there, failed := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err = failed; err == nil && there != here {
			return nil
		}
		if time.Since(began) > stopMax {
			return errors.New("a host has no network of its own")
		}
	}
	return err
}

// start starts a member on its host, always with the same flags but for its address.
func (c *cluster) start(place int) (err error) {
	h, seeds := c.hosts[place], []string{}
	for _, other := range c.hosts {
		seeds = append(seeds, other.address()+raftPort)
	}
	certs := c.file("certs")
	h.member, err = local.StartProcess("nsenter", []string{
		fmt.Sprintf("--net=/proc/%d/ns/net", h.keeper.PID()), c.program, "serve", "--stop-with-stdin",
		"--id", h.id, "--cluster", "hosts", "--data", c.file(h.id),
		"--raft-addr", h.address() + raftPort, "--http-addr", h.address() + httpPort,
		"--advertise", h.address() + raftPort, "--url", h.url(),
		"--founders", "n1,n2,n3", "--seeds", strings.Join(seeds, ","), "--election-timeout", "400ms",
		"--tls-ca", filepath.Join(certs, "ca.pem"), "--tls-cert", filepath.Join(certs, h.id+".pem"), "--tls-key", filepath.Join(certs, h.id+".key"),
	}, c.file(h.id+".log"))
	return err
}

// treat sets what happens to the packets of one host to and from the other hosts. Clients reach all hosts.
func (c *cluster) treat(place int, how testnet.Link) {
	for i, other := range c.hosts {
		if i != place {
			c.wires.Treat(c.hosts[place].number, other.number, how)
			c.wires.Treat(other.number, c.hosts[place].number, how)
		}
	}
}

// treatAll sets what happens to the packets between all hosts.
func (c *cluster) treatAll(how testnet.Link) {
	for place := range c.hosts {
		c.treat(place, how)
	}
}

// close ends all hosts, and prints the ends of the logs after a failure.
func (c *cluster) close(failed bool) {
	const most = 3000
	c.http.CloseIdleConnections()
	for _, h := range c.hosts {
		if h == nil {
			continue
		}
		if h.member != nil {
			h.member.Kill()
		}
		h.keeper.Kill()
		if log, err := os.ReadFile(c.file(h.id + ".log")); failed && err == nil {
			fmt.Printf("the log of %s ends:\n%s\n", h.id, log[max(0, len(log)-most):])
		}
	}
}

// leader returns the place of the member that leads, and what it says of the members.
func (c *cluster) leader(ctx context.Context) (place int, m admin.Members, err error) {
	for place, h := range c.hosts {
		if m, err := client.New(h.url(), c.http).Members(ctx); err == nil && m.Leads() {
			return place, m, nil
		}
	}
	return 0, m, errors.New("no member leads")
}

// whole returns nil if a leader says that all members are voters without a problem, at their present addresses, and each is
// ready.
func (c *cluster) whole(ctx context.Context) error {
	_, m, err := c.leader(ctx)
	if err != nil {
		return err
	}
	for _, h := range c.hosts {
		all := m.Of(h.id)
		switch {
		case len(all) != 1 || all[0].Kind != admin.StandingVoter || !m.Committed || m.Change != nil:
			return fmt.Errorf("%s is no voter: %+v", h.id, m)
		case all[0].Problem != "" || all[0].Address != h.address()+raftPort:
			return fmt.Errorf("%s at %s: %s", h.id, all[0].Address, all[0].Problem)
		}
		if err := client.New(h.url(), c.http).Ready(ctx); err != nil {
			return fmt.Errorf("%s: %w", h.id, err)
		}
	}
	return nil
}

// await waits until all members serve.
func (c *cluster) await(ctx context.Context) error {
	for {
		err := c.whole(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(poll):
		}
	}
}
