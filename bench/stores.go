package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/coxswain/raft/internal/load"
)

// storeContestant is a key-value store of three processes: a column in the cells of kind store.
type storeContestant struct {
	name string
	// program returns the path of the program that the members run.
	program func(ctx context.Context, dir string) (string, error)
	// arguments returns the command-line arguments of one member. The member ends when its standard input is closed.
	arguments func(m storeMember) []string
	// connect returns a function that puts a value into the store through its leader. Many callers may call the function at
	// once.
	connect func(ctx context.Context, m []storeMember, callers int) (put, error)
}

type put func(ctx context.Context, key string, value []byte) error

var stores = []storeContestant{
	{"raftkv-bbolt", buildRaftkv, raftkvArguments("bbolt"), connectRaftkv},
	{"raftkv-segments", buildRaftkv, raftkvArguments("segments"), connectRaftkv},
	{"etcd", thisProgram, etcdArguments, connectEtcd},
}

func storeNames() (list []string) {
	for _, s := range stores {
		list = append(list, s.name)
	}
	return list
}

// storeMember describes where a member of a store runs.
type storeMember struct {
	ID           int // from 1
	Name, Dir    string
	Peers, Hosts []string // addresses of all members, for each other and for clients
}

func (m storeMember) peer() string { return m.Peers[m.ID-1] }
func (m storeMember) host() string { return m.Hosts[m.ID-1] }

// storeKeys is the number of different keys.
const storeKeys = 10_000

// callersPerConnection bounds the callers of one connection of etcd's client, which carries many calls at once.
const callersPerConnection = 16

// store measures how fast callers put values into a store. Each member has its own process; the callers are in this process.
func (r *run) store(ctx context.Context) (f figures, err error) {
	s := stores[slices.IndexFunc(stores, func(s storeContestant) bool { return s.name == r.contestant })]
	members, err := storeMembers(r.dir, r.cell.Replicas)
	if err != nil {
		return nil, err
	}
	program, err := s.program(ctx, filepath.Dir(r.dir))
	if err != nil {
		return nil, err
	}
	var servers []*server
	defer func() {
		for _, server := range servers {
			err = server.end(err)
		}
	}()
	for _, m := range members {
		server, err := startServer(program, s.arguments(m))
		if err != nil {
			return nil, err
		}
		servers = append(servers, server)
	}
	starting, cancel := context.WithTimeout(ctx, startupMax)
	defer cancel()
	write, err := s.connect(starting, members, r.cell.Callers)
	if err != nil {
		return nil, err
	}
	value := newCommand(r.cell.Bytes)
	l := load.Load{
		Callers: r.cell.Callers, Rate: r.cell.Rate, Warmup: r.warmup, Measure: r.measure,
		Do: func(ctx context.Context, _ int) error {
			return write(ctx, fmt.Sprintf("bench-%d", rand.IntN(storeKeys)), value)
		},
	}
	report := l.Run(ctx)
	if report.Operations == 0 {
		return nil, fmt.Errorf("no operation succeeded: %w", report.Err)
	}
	f = figuresOf(report)
	if report.Err != nil {
		r.firstFailure = report.Err.Error()
	}
	for _, server := range servers {
		f[residentMax] += server.residentMiB()
	}
	return f, nil
}

func storeMembers(dir string, count int) (members []storeMember, err error) {
	addresses, err := freeAddresses(2 * count)
	if err != nil {
		return nil, err
	}
	for i := range count {
		name := fmt.Sprintf("n%d", i+1)
		members = append(members, storeMember{i + 1, name, filepath.Join(dir, name), addresses[:count], addresses[count:]})
	}
	return members, nil
}

// server is the process of one member.
type server struct {
	cmd   *exec.Cmd
	input io.Closer
	words bytes.Buffer
}

func startServer(program string, arguments []string) (*server, error) {
	s := &server{cmd: exec.Command(program, arguments...)}
	s.cmd.Stdout, s.cmd.Stderr = &s.words, &s.words
	input, err := s.cmd.StdinPipe() // closed by the system if this process dies
	if err != nil {
		return nil, err
	}
	s.input = input
	return s, s.cmd.Start()
}

// end kills the process. If err is not nil, end adds the output of the process to the error.
func (s *server) end(err error) error {
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()
	_ = s.input.Close()
	if err != nil && s.words.Len() > 0 {
		return fmt.Errorf("%w\n%s", err, lastWords(s.words.String()))
	}
	return err
}

func (s *server) residentMiB() (x float64) {
	status := fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid)
	_, _ = fmt.Sscan(firstValue(status, "VmRSS"), &x) // 0 if it has ended
	return x / 1024
}

func thisProgram(context.Context, string) (string, error) { return os.Executable() }

// buildRaftkv builds the program, unless an earlier run of the session has built it.
func buildRaftkv(ctx context.Context, dir string) (program string, err error) {
	program = filepath.Join(dir, "raftkv")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/coxswain/raft").Output()
	if err != nil {
		return "", fmt.Errorf("run it in the directory bench: %w", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/raftkv")
	build.Dir = string(bytes.TrimSpace(root))
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return program, nil
}

func raftkvArguments(log string) func(storeMember) []string {
	return func(m storeMember) []string {
		arguments := []string{
			"serve", "--stop-with-stdin", "--id", m.Name, "--cluster", "bench", "--data", m.Dir, "--log", log,
			"--raft-addr", m.peer(), "--http-addr", m.host(), "--log-level", "warn",
		}
		for i := range m.Peers {
			arguments = append(arguments, "--peers", fmt.Sprintf("n%d=%s=http://%s", i+1, m.Peers[i], m.Hosts[i]))
		}
		return arguments
	}
}

// connectRaftkv waits for a leader. Each caller has a connection.
func connectRaftkv(ctx context.Context, members []storeMember, callers int) (put, error) {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		for _, host := range members[0].Hosts {
			if raftkvLeads(ctx, client, host) {
				return putRaftkv(client, host), nil
			}
		}
	}
	return nil, errors.New("raftkv has no leader")
}

func raftkvLeads(ctx context.Context, client *http.Client, host string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/status", nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	var status struct {
		Role string `json:"role"`
	}
	return json.NewDecoder(response.Body).Decode(&status) == nil && status.Role == "leader"
}

func putRaftkv(client *http.Client, host string) put {
	return func(ctx context.Context, key string, value []byte) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+host+"/kv/"+key, bytes.NewReader(value))
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, response.Body) // so that the connection is used again
		if response.StatusCode/100 != 2 {
			err = errors.Join(err, errors.New(response.Status))
		}
		return errors.Join(err, response.Body.Close())
	}
}
