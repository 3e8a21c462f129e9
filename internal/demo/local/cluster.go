package local

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
)

// Limits of status requests.
const (
	statusTimeout = 500 * time.Millisecond
	statusPause   = 10 * time.Millisecond
	stopTimeout   = 5 * time.Second
	logTailBytes  = 2000
)

// Cluster is a cluster of processes on this machine, with its data in one directory. Its methods may
// be called from any goroutine.
type Cluster struct {
	*Layout
	program string
	dir     string
	http    *http.Client
	// More, if not nil, returns further arguments for a member. Set it before Start.
	More func(Node) []string
	// Emptied, if not nil, reports whether a member has lost the disk of its first start. Such a member must not get the
	// initial members again. Set it before Start.
	Emptied func(Node) bool
	// Program, if not nil, returns the program of a member. By default, all members run the program of NewCluster. Set it
	// before Start.
	Program func(Node) string

	mu        sync.Mutex
	processes map[string]*Process // the latest process of each member
}

// NewCluster returns a cluster whose members run the program's command "serve". It starts no member. The cluster becomes the
// owner of the layout and closes it in the end.
func NewCluster(program, dir string, layout *Layout) *Cluster {
	return &Cluster{
		Layout: layout, program: program, dir: dir,
		http: client.NewHTTP(1, statusTimeout), processes: map[string]*Process{},
	}
}

// Spare adds a node to the layout and returns it. The node is not an initial member, and Spare does not start it. No other
// method may run meanwhile.
func (c *Cluster) Spare() (Node, error) {
	if len(c.Nodes) == NodesMax {
		return Node{}, fmt.Errorf("there are %d nodes; the maximum is %d", len(c.Nodes), NodesMax)
	}
	if err := c.choose(nil, true); err != nil {
		return Node{}, err
	}
	return c.Nodes[len(c.Nodes)-1], c.save(c.dir)
}

// Join starts a stopped member. From now on, the member starts without the list of initial members. No other method may run
// meanwhile.
func (c *Cluster) Join(id string) error {
	for i := range c.Nodes {
		if c.Nodes[i].ID == id {
			c.Nodes[i].Joins = true
		}
	}
	if err := c.save(c.dir); err != nil {
		return err
	}
	return c.Start(id)
}

// Move gives a stopped member other addresses for its next starts. No other method may run meanwhile.
func (c *Cluster) Move(id string) error {
	if err := c.move(id); err != nil {
		return err
	}
	return c.save(c.dir)
}

// DataDir returns the data directory of a member.
func (c *Cluster) DataDir(id string) string { return filepath.Join(c.dir, id) }

func (c *Cluster) logFile(id string) string { return filepath.Join(c.dir, id+".log") }

// ServeArgs returns the arguments of a member's start, including those of More.
func (c *Cluster) ServeArgs(n Node) []string {
	args := []string{
		"serve", "--stop-with-stdin", "--id", n.ID, "--cluster", "demo", "--data", c.DataDir(n.ID),
		"--raft-addr", n.RaftAddr, "--http-addr", n.HTTPAddr,
	}
	for _, peer := range c.peersOf(n) {
		args = append(args, "--peers", peer)
	}
	if c.More != nil {
		args = append(args, c.More(n)...)
	}
	return args
}

// peersOf returns the initial members. For a node that joins the running cluster, it returns none.
func (c *Cluster) peersOf(n Node) []string {
	if n.Joins || c.Emptied != nil && c.Emptied(n) {
		return nil
	}
	return c.Peers()
}

// Start starts the members with these ids. Without ids, it starts all members. It leaves out members that already run.
func (c *Cluster) Start(ids ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.Nodes {
		if p := c.processes[n.ID]; !named(ids, n.ID) || (p != nil && p.Running()) {
			continue
		}
		program := c.program
		if c.Program != nil {
			program = c.Program(n)
		}
		p, err := StartProcess(program, c.ServeArgs(n), c.logFile(n.ID))
		if err != nil {
			return fmt.Errorf("start %s: %w", n.ID, err)
		}
		c.processes[n.ID] = p
	}
	return nil
}

func named(ids []string, id string) bool {
	for _, other := range ids {
		if other == id {
			return true
		}
	}
	return len(ids) == 0
}

// Process returns the latest process of the member. It returns nil if no process was started.
func (c *Cluster) Process(id string) *Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.processes[id]
}

// Kill kills the members with these ids at the same time. Without ids, it kills all members.
func (c *Cluster) Kill(ids ...string) {
	c.each(ids, (*Process).Kill)
}

// Stop asks all members to end, waits for them, and closes the layout. The cluster must not be used afterwards.
func (c *Cluster) Stop() {
	c.http.CloseIdleConnections() // members wait for idle connections
	c.each(nil, func(p *Process) { p.Stop(stopTimeout) })
	c.Close()
}

func (c *Cluster) each(ids []string, do func(*Process)) {
	var all sync.WaitGroup
	defer all.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, p := range c.processes {
		if named(ids, id) {
			all.Go(func() { do(p) })
		}
	}
}

// Client returns a client of the member that uses the connections of the given http.Client.
func (n Node) Client(shared *http.Client) *client.Client { return client.New(n.URL(), shared) }

// Status returns a member's status.
func (c *Cluster) Status(ctx context.Context, n Node) (api.Status, error) {
	return n.Client(c.http).Status(ctx)
}

// Leader returns the member that claims to lead in the highest term.
func (c *Cluster) Leader(ctx context.Context) (Node, bool) {
	statuses := c.Statuses(ctx)
	leader, term := Node{}, uint64(0)
	for i, s := range statuses {
		if s.Role == "leader" && s.Term > term {
			leader, term = c.Nodes[i], s.Term
		}
	}
	return leader, term > 0
}

// Statuses asks all members at the same time. The statuses are in the order of Nodes. The status of a member that does not
// answer is empty.
func (c *Cluster) Statuses(ctx context.Context) []api.Status {
	statuses := make([]api.Status, len(c.Nodes))
	var all sync.WaitGroup
	for i, n := range c.Nodes {
		if p := c.Process(n.ID); p == nil || !p.Running() || p.Frozen() {
			continue
		}
		all.Go(func() { statuses[i], _ = c.Status(ctx, n) }) // a member without an answer is no leader
	}
	all.Wait()
	return statuses
}

// AwaitLeader waits until a member other than the one named, which may be "", reports that it leads, and returns it. It
// fails when the context ends.
func (c *Cluster) AwaitLeader(ctx context.Context, other string) (Node, error) {
	for {
		if leader, found := c.Leader(ctx); found && leader.ID != other {
			return leader, nil
		}
		select {
		case <-ctx.Done():
			return Node{}, fmt.Errorf("no leader: %w", context.Cause(ctx))
		case <-time.After(statusPause):
		}
	}
}

// Ended returns an error if the process of a member has ended by itself. The error contains the end of its log.
func (c *Cluster) Ended(id string) error {
	p := c.Process(id)
	if p == nil || p.Running() {
		return nil
	}
	return fmt.Errorf("%s has ended (%v); its log ends:\n%s", id, p.Err(), c.LogTail(id))
}

// LogTail returns the last lines that the member wrote.
func (c *Cluster) LogTail(id string) string {
	file, err := os.Open(c.logFile(id))
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	cut := false
	if info, err := file.Stat(); err == nil && info.Size() > logTailBytes {
		_, err = file.Seek(-logTailBytes, io.SeekEnd) // if that fails, read from the beginning
		cut = err == nil
	}
	tail, _ := io.ReadAll(io.LimitReader(file, logTailBytes)) // an error leaves what could be read
	if _, lines, found := strings.Cut(string(tail), "\n"); cut && found && lines != "" {
		return lines // without the first line, which is incomplete
	}
	return string(tail)
}
