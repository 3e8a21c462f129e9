package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/examples/internal/processes"
	"github.com/coxswain/raft/session"
)

// load enqueues jobs and does them, until it is stopped.
type load struct {
	t                      *testing.T
	stopProducers, stopAll context.CancelFunc
	producers, workers     sync.WaitGroup
	mu                     sync.Mutex
	enqueued, done         map[string]int
}

func (l *load) open(ctx context.Context, c *processes.Cluster, first int) queue {
	through := &remote{}
	for i := range c.Members {
		through.urls = append(through.urls, c.Members[(first+i)%len(c.Members)].Meta)
	}
	s, err := session.Open(ctx, through, session.Config{})
	require.NoError(l.t, err)
	return queue{s}
}

func begin(t *testing.T, c *processes.Cluster, each int) *load {
	l := &load{t: t, enqueued: map[string]int{}, done: map[string]int{}}
	producing, stopProducers := context.WithCancel(t.Context())
	working, stopAll := context.WithCancel(t.Context())
	l.stopProducers, l.stopAll = stopProducers, stopAll
	for i := range each {
		producer, worker := l.open(t.Context(), c, i), l.open(t.Context(), c, i+1)
		l.producers.Go(func() {
			for n := 0; producing.Err() == nil; n++ {
				payload := fmt.Sprintf("%d of %d", n, i)
				if j, err := producer.do(t.Context(), command{Enqueue: []byte(payload)}); assert.NoError(t, err) && assert.NotZero(t, j.ID) {
					l.note(l.enqueued, payload)
				}
			}
		})
		l.workers.Go(func() {
			for working.Err() == nil {
				j, err := worker.do(t.Context(), command{Lease: time.Hour})
				if !assert.NoError(t, err) {
					return
				}
				if j.ID == 0 {
					continue
				}
				ended, err := worker.do(t.Context(), command{Done: &j})
				if assert.NoError(t, err) && assert.Equal(t, j.ID, ended.ID, "nobody else has leased it") {
					l.note(l.done, string(j.Payload))
				}
			}
		})
	}
	return l
}

func (l *load) note(in map[string]int, payload string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in[payload]++
}

func (l *load) counts() (enqueued, done int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.enqueued), len(l.done)
}

// more waits until 50 more jobs are done.
func (l *load) more() {
	l.t.Helper()
	_, before := l.counts()
	require.Eventually(l.t, func() bool { _, now := l.counts(); return now >= before+50 }, time.Minute, 10*time.Millisecond)
}

// Jobs are enqueued and done through all members. Meanwhile each member is restarted, and killed. A lease lasts an hour, so a job
// whose lease was lost would never be done: each job is done, and each once, although every request may have been repeated.
func TestExample_EachJobIsDoneOnce(t *testing.T) {
	c := processes.StartAll(t, "queue")
	l := begin(t, c, 8)
	l.more()
	for _, end := range []func(*processes.Cluster, raft.NodeID){(*processes.Cluster).Stop, (*processes.Cluster).Kill} {
		for _, m := range c.Members {
			end(c, m.ID)
			l.more()
			c.Start(m.ID)
			l.more()
		}
	}
	l.stopProducers()
	l.producers.Wait()
	require.Eventually(t, func() bool { enqueued, done := l.counts(); return done == enqueued }, time.Minute, 10*time.Millisecond)
	l.stopAll()
	l.workers.Wait()
	assert.ElementsMatch(t, slices.Collect(maps.Keys(l.enqueued)), slices.Collect(maps.Keys(l.done)))
	for payload, times := range l.done {
		assert.Equal(t, 1, times, payload)
	}
}

// The program's own commands: a job is enqueued, done, and no longer there.
func TestExample_TheProgramItself(t *testing.T) {
	c := processes.StartAll(t, "queue")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, run(ctx, c.List(), "enqueue", "send the letter"))
	l := &load{t: t}
	var done []string
	do := func(payload []byte) { done = append(done, string(payload)) }
	require.NoError(t, l.open(ctx, c, 0).work(ctx, do))
	require.NoError(t, l.open(ctx, c, 1).work(ctx, do))
	assert.Equal(t, []string{"send the letter"}, done)
	require.NoError(t, run(ctx, c.List(), "work", ""))
	assert.Error(t, run(ctx, "nonsense", "work", ""))
}
