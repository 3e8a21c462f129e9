package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/coxswain/raft/session"
)

// boltCounter is counter as a session.Durable in a bbolt file.
type boltCounter struct {
	db      *bbolt.DB
	written func() // nil, or runs after each transaction
	streams int    // snapshots that were restored
}

var (
	countsBucket   = []byte("counts")
	sessionsBucket = []byte("sessions")
	appliedBucket  = []byte("applied")
)

func openCounter(t testing.TB, path string) *boltCounter {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{countsBucket, sessionsBucket, appliedBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	}))
	t.Cleanup(func() { _ = db.Close() })
	return &boltCounter{db: db}
}

func (c *boltCounter) update(id raft.EntryID, change func(*bbolt.Tx) error) error {
	err := c.db.Update(func(tx *bbolt.Tx) error {
		at, err := json.Marshal(id)
		return errors.Join(err, change(tx), tx.Bucket(appliedBucket).Put(appliedBucket, at))
	})
	if err == nil && c.written != nil {
		c.written()
	}
	return err
}

func put(tx *bbolt.Tx, changes []session.Change) (err error) {
	b := tx.Bucket(sessionsBucket)
	for _, c := range changes {
		if c.Value == nil {
			err = errors.Join(err, b.Delete(c.Key))
		} else {
			err = errors.Join(err, b.Put(c.Key, c.Value))
		}
	}
	return err
}

func (c *boltCounter) ApplyWith(batch []raft.Entry, results [][]byte, last raft.EntryID, changes func() []session.Change) error {
	return c.update(last, func(tx *bbolt.Tx) error {
		b := tx.Bucket(countsBucket)
		for i, e := range batch {
			n, _ := strconv.Atoi(string(b.Get(e.Data)))
			results[i] = fmt.Append(nil, n+1)
			if err := b.Put(e.Data, results[i]); err != nil {
				return err
			}
		}
		return put(tx, changes())
	})
}

func (c *boltCounter) Sessions(load func(key, value []byte) error) error {
	return c.db.View(func(tx *bbolt.Tx) error { return tx.Bucket(sessionsBucket).ForEach(load) })
}

func (c *boltCounter) RestoreWith(_ context.Context, id raft.EntryID, r io.Reader, sessions []session.Change) error {
	c.streams++
	counts := map[string]string{}
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &counts); err != nil {
		return err
	}
	return c.update(id, func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{countsBucket, sessionsBucket} {
			if err := tx.DeleteBucket(name); err != nil {
				return err
			}
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		for command, n := range counts {
			if err := tx.Bucket(countsBucket).Put([]byte(command), []byte(n)); err != nil {
				return err
			}
		}
		return put(tx, sessions)
	})
}

func (c *boltCounter) counts() (counts map[string]string) {
	counts = map[string]string{}
	_ = c.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(countsBucket).ForEach(func(k, v []byte) error { counts[string(k)] = string(v); return nil })
	})
	return counts
}

func (c *boltCounter) Snapshot() (raft.FSMSnapshot, error) {
	data, err := json.Marshal(c.counts())
	return frozen(data), err
}

func (c *boltCounter) Applied() (id raft.EntryID, err error) {
	err = c.db.View(func(tx *bbolt.Tx) error {
		if at := tx.Bucket(appliedBucket).Get(appliedBucket); at != nil {
			return json.Unmarshal(at, &id)
		}
		return nil
	})
	return id, err
}

func (c *boltCounter) Sync() error { return c.db.Sync() }

func (c *boltCounter) Apply([]raft.Entry, [][]byte) error { return errors.New("not called") }
func (c *boltCounter) Restore(context.Context, raft.EntryID, io.Reader) error {
	return errors.New("not called")
}

// The log of some sessions, whose answers get lost half of the time, is applied to a bbolt file. From the file as it was after
// each transaction, a restarted member reaches the same state.
func TestDurable_ACrashAfterAnyTransaction(t *testing.T) {
	var log []raft.Entry
	synctest.Test(t, func(t *testing.T) { // a log as a cluster makes it
		c := newCluster(t, nil)
		var mu sync.Mutex
		rng := rand.New(rand.NewSource(1))
		c.lose = func() bool { mu.Lock(); defer mu.Unlock(); return rng.Intn(2) == 0 }
		c.before = func(_ context.Context, entry []byte) {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, raft.Entry{Kind: raft.EntrySession, Data: entry})
		}
		s := c.open(session.Config{Limits: session.Limits{Window: 4}})
		log = log[len(log)-1:]
		for i := len(log); i < int(s.ID().Index); i++ { // so that the opening has its index
			log = append([]raft.Entry{{Kind: raft.EntryCommand, Data: []byte("raw")}}, log...)
		}
		var done sync.WaitGroup
		for worker := range 3 {
			done.Go(func() {
				for i := range 5 {
					propose(t, s, fmt.Sprintf("%d.%d", worker, i))
				}
			})
		}
		done.Wait()
	})
	for i := range log {
		log[i].Index, log[i].Term, log[i].Time = raft.Index(i+1), 1, int64(i+1)
	}
	dir := t.TempDir()
	whole := openCounter(t, filepath.Join(dir, "whole"))
	images := []string{}
	whole.written = func() {
		image := filepath.Join(dir, fmt.Sprint("image", len(images)))
		require.NoError(t, whole.db.View(func(tx *bbolt.Tx) error { return tx.CopyFile(image, 0o600) }))
		images = append(images, image)
	}
	replay(t, whole, log, 3)
	want := whole.counts()
	require.Equal(t, "1", want["2.4"])
	require.Greater(t, len(log), 20)
	for _, image := range images {
		c := openCounter(t, image)
		replay(t, c, log, 2)
		require.Equal(t, want, c.counts(), image)
	}
}

// replay applies the rest of a log, in batches.
func replay(t *testing.T, c *boltCounter, log []raft.Entry, size int) {
	fsm, err := session.Wrap(c)
	require.NoError(t, err)
	at, err := fsm.(raft.DurableFSM).Applied()
	require.NoError(t, err)
	for rest := log[at.Index:]; len(rest) > 0; {
		n := min(size, len(rest))
		require.NoError(t, fsm.Apply(rest[:n], make([][]byte, n)))
		rest = rest[n:]
	}
}

// durableCluster returns a running cluster on these stores, and a function that starts a member of it. Other starts use the store
// without a name.
func durableCluster(t *testing.T, stores map[raft.NodeID]*boltCounter) (c *cluster, start func(raft.NodeID)) {
	c = &cluster{t: t}
	var starting raft.NodeID
	c.Cluster = rafttest.Prepare(t, rafttest.Options{
		Configure: often,
		NewFSM: func() raft.FSM {
			fsm, err := session.Wrap(stores[starting])
			require.NoError(t, err)
			return fsm
		},
	})
	start = func(id raft.NodeID) {
		starting = id
		n := c.Start(id)
		starting = ""
		c.mu.Lock()
		defer c.mu.Unlock()
		c.nodes = append(c.nodes, n)
	}
	for _, id := range c.IDs() {
		start(id)
	}
	return c, start
}

// Members with a DurableFSM are killed, restarted, and brought up to date by a stream.
func TestDurable_KillsOfMembers(t *testing.T) {
	dir := t.TempDir()
	stores := map[raft.NodeID]*boltCounter{}
	for _, id := range []raft.NodeID{"n1", "n2", "n3"} {
		stores[id] = openCounter(t, filepath.Join(dir, string(id)))
	}
	synctest.Test(t, func(t *testing.T) {
		c, start := durableCluster(t, stores)
		s := c.open(session.Config{})
		var done sync.WaitGroup
		stop := make(chan struct{})
		said := 0
		done.Go(func() {
			for ; ; said++ {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
				}
				assert.Equal(t, "1", propose(t, s, fmt.Sprint(said)))
			}
		})
		for i := range 9 {
			time.Sleep(500 * time.Millisecond)
			id := c.IDs()[i%3]
			if i%2 == 0 {
				id = c.Leader().Status().ID
			}
			n := c.Node(id)
			c.mu.Lock()
			c.nodes = without(c.nodes, n)
			c.mu.Unlock()
			c.Crash(id)
			time.Sleep(time.Duration(i) * 300 * time.Millisecond)
			start(id)
		}
		close(stop)
		done.Wait()
		c.Converge()
		assert.Greater(t, said, 100)
		for _, id := range c.IDs() {
			assert.Len(t, stores[id].counts(), said, id)
		}
		c.Crash("n3")
		stores["n3"] = openCounter(t, filepath.Join(dir, "empty"))
		stores[""] = stores["n3"]
		c.Replace("n3")
		c.nodes = append(c.nodes[:0], c.Node("n3"))
		assert.Equal(t, "1", propose(t, s, "at last"))
		c.Converge()
		assert.Equal(t, stores["n1"].counts(), stores["n3"].counts())
		assert.Equal(t, 1, stores["n3"].streams)
	})
}

// often takes snapshots often, and keeps a short log.
func often(cfg *node.Config) { cfg.Forward, cfg.SnapshotEntries, cfg.SnapshotTailBytes = true, 20, 1 }

func without(nodes []*node.Node, n *node.Node) []*node.Node {
	return slices.DeleteFunc(nodes, func(o *node.Node) bool { return o == n })
}
