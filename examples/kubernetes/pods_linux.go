package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
)

const (
	// publishDelay is the time from the start of a pod until its name leads to its new address. Until then, the name leads to the
	// former one, or nowhere.
	publishDelay = 300 * time.Millisecond
	stopMax      = 10 * time.Second // in which a deleted pod may end by itself
	poll         = 20 * time.Millisecond
)

//go:embed jobs.yaml
var manifest string

// argument matches an argument of the container in the manifest.
var argument = regexp.MustCompile(`(?m)^ +- (serve|--\S+)`)

// arguments returns the arguments of a pod's container. Its volume is a directory here.
func arguments(pod, volume string) (args []string) {
	for _, match := range argument.FindAllStringSubmatch(manifest, -1) {
		args = append(args, strings.NewReplacer("$(POD_NAME)", pod, "=/data", "="+volume).Replace(match[1]))
	}
	return args
}

// cluster has the pods.
type cluster struct {
	dir, program string
	names        *names
	http         *http.Client
	pods         map[string]*running
	last         int // the last number in the latest address
	began        time.Time
}

// running is a pod that runs.
type running struct {
	process *local.Process
	address string
	link    string // its end at the bridge
}

func pod(ordinal int) string { return fmt.Sprintf("%s-%d", service, ordinal) }

func (c *cluster) logFile(pod string) string { return filepath.Join(c.dir, pod+".log") }

// say prints a line with the time since the beginning.
func (c *cluster) say(format string, args ...any) {
	fmt.Printf("%6.2f s  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

// restart ends the pods of a step that run, and starts all its pods at new addresses.
func (c *cluster) restart(s step) error {
	var errs []error
	for _, i := range s.pods { // a lost node sends nothing, not even that its connections are closed
		if p := c.pods[pod(i)]; p != nil && s.crash {
			errs = append(errs, ip("link delete "+p.link))
		}
	}
	for _, i := range s.pods {
		if p := c.pods[pod(i)]; p != nil && s.crash {
			p.process.Kill()
		} else if p != nil {
			p.process.Stop(stopMax)
		}
		if s.lose {
			errs = append(errs, os.RemoveAll(filepath.Join(c.dir, pod(i))))
		}
	}
	for _, i := range s.pods {
		errs = append(errs, c.start(pod(i)))
	}
	return errors.Join(errs...)
}

// start starts a pod.
func (c *cluster) start(name string) error {
	c.last++
	address := addresses + strconv.Itoa(c.last)
	p := &running{address: address, link: "pod" + strconv.Itoa(c.last)}
	args := []string{"--net", "sh", "-euc", script, "sh", p.link, strconv.Itoa(os.Getpid()), address, c.program}
	args = append(args, arguments(name, filepath.Join(c.dir, name))...)
	var err error
	if p.process, err = local.StartProcess("unshare", append(args, "--stop-with-stdin"), c.logFile(name)); err != nil {
		return err
	}
	c.pods[name] = p
	c.say("   %s starts at %s", name, address)
	time.AfterFunc(publishDelay, func() { c.names.publish(name, net.ParseIP(address)) })
	return nil
}

// close ends all pods.
func (c *cluster) close() {
	c.http.CloseIdleConnections()
	for _, p := range c.pods {
		p.process.Kill()
	}
}

// members returns the members as the leader sees them.
func (c *cluster) members(ctx context.Context) (admin.Members, error) {
	for _, p := range c.pods {
		if m, err := c.client(p).Members(ctx); err == nil && m.Leads() {
			return m, nil
		}
	}
	return admin.Members{}, errors.New("no pod leads")
}

func (c *cluster) client(p *running) *client.Client {
	return client.New("http://"+p.address+":4000", c.http)
}

// await waits until the condition holds. Its error says why it does not hold.
func (c *cluster) await(ctx context.Context, condition func() error) error {
	for {
		err := condition()
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

// count returns nil if each pod of the step is a voter that serves, and, if the pod has lost its disk, is another
// incarnation than before.
func (c *cluster) count(ctx context.Context, before admin.Members, s step) error {
	now, err := c.members(ctx)
	if err != nil {
		return err
	}
	for _, i := range s.pods {
		id := pod(i)
		all, former := now.Of(id), before.Of(id)
		switch {
		case len(all) != 1 || all[0].Kind != admin.StandingVoter || !now.Committed || now.Change != nil:
			return fmt.Errorf("%s is no voter yet: %+v", id, now)
		case all[0].Problem != "":
			return fmt.Errorf("%s: %s", id, all[0].Problem)
		case len(former) == 1 && (former[0].Incarnation == all[0].Incarnation) == s.lose:
			return fmt.Errorf("%s has incarnation %s, and had %s", id, all[0].Incarnation, former[0].Incarnation)
		}
		if err := c.client(c.pods[id]).Ready(ctx); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
	}
	return nil
}

// logs returns the ends of the pods' logs.
func (c *cluster) logs() (text string) {
	const most = 3000
	for name := range c.pods {
		log, err := os.ReadFile(c.logFile(name))
		if err != nil {
			log = []byte(err.Error())
		}
		text += fmt.Sprintf("the log of %s ends:\n%s\n", name, log[max(0, len(log)-most):])
	}
	return text
}
