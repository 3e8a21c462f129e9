package fuzzy

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sessions"
	"github.com/coxswain/raft/internal/sim"
)

// The clients of profile sessions get every answer that the table gives to a command, from both kinds of state machines.
func TestSessions_EveryAnswerIsReached(t *testing.T) {
	seen := [11]int{}
	durable := [2]int{}
	for number := range uint64(12) {
		r, err := Run(Seed{"sessions", number}, nil)
		require.NoError(t, err)
		require.Nil(t, r.Failure)
		for outcome, count := range r.SessionCommands {
			seen[outcome] += count
		}
		if r.Profile.Node.Durable {
			durable[1] += r.Restores
		} else {
			durable[0] += r.Restores
		}
	}
	for _, o := range []sessions.Outcome{sessions.Applied, sessions.Expired, sessions.Answered, sessions.Beyond, sessions.Bytes} {
		assert.Positive(t, seen[o], "%v", o)
	}
	assert.Positive(t, durable[0])
	assert.Positive(t, durable[1])
}

// withSessions returns a healthy cluster whose clients have sessions, and a command with an answer.
func withSessions(t *testing.T) (c *cluster, lead, follower *node, answered *sessionCommand) {
	p := calmOfThree(t)
	p.Load.Clients = 2
	p.Sessions = Sessions{Chance: sim.Million, Most: 2, Bytes: 1 << 20, Idle: sim.In(1e10), Window: 4}
	c = runningAs(t, p)
	lead = c.nodes[c.leader()]
	for _, one := range c.work.sessions.commands {
		if one.answer != nil && (answered == nil || one.serial < answered.serial) {
			answered = one
		}
	}
	require.NotNil(t, answered)
	return c, lead, c.nodes[(lead.index+1)%3], answered
}

// entryOfSession returns the last committed command of a session.
func entryOfSession(k *checker) *raft.Entry {
	for i := len(k.canonical) - 1; ; i-- {
		e := k.canonical[i].slot.entry
		if e.Kind != raft.EntrySession {
			continue
		}
		if r, err := sessions.DecodeRequest(requestBytes(e)); err == nil && r.Kind == sessions.Command {
			return e
		}
	}
}

func TestInvariants_OfSessionsNoticeTheirBreach(t *testing.T) {
	for what, row := range map[string]struct {
		rule   string
		breach func(k *checker, lead, follower *node, c *sessionCommand)
	}{
		"another answer": {"G24", func(k *checker, _, follower *node, _ *sessionCommand) {
			k.checkSessionAnswers(follower, []*raft.Entry{entryOfSession(k)}, [][]byte{{1, 2, 3}})
		}},
		"an answer against the rules": {"G24", func(k *checker, _, _ *node, _ *sessionCommand) {
			k.machine.ledger.effects = nil
			k.checkSessionEntry(entryOfSession(k), []byte{1, 2, 3})
		}},
		"a member fails": {"G24", func(k *checker, _, follower *node, _ *sessionCommand) {
			follower.machine.ledger.err = errors.New("it fails")
			k.checkState(follower)
		}},
		"another table": {"G18", func(k *checker, _, follower *node, _ *sessionCommand) {
			e := *entryOfSession(k)
			e.Time++
			follower.machine.ledger.apply([]*raft.Entry{&e})
			k.checkState(follower)
		}},
		"a session without a configuration": {"G25", func(k *checker, lead, _ *node, _ *sessionCommand) {
			k.checkSessionAllowed(lead, &raft.Entry{Kind: raft.EntrySession}, lead.log[0].config)
		}},
		"a session beside an earlier release": {"G25", func(k *checker, lead, follower *node, _ *sessionCommand) {
			lead.seen.speaks[follower.peer()] = raft.ProtocolSessions - 1
			k.checkSessionsBegin(lead, configured(lead.log))
		}},
		"two effects": {"H8", func(k *checker, _, _ *node, c *sessionCommand) {
			k.checkEffects(entryOfSession(k), []uint64{c.serial})
		}},
		"an effect after its client was told of none": {"H8", func(k *checker, _, _ *node, c *sessionCommand) {
			c.effects, c.never = 0, true
			k.checkEffects(entryOfSession(k), []uint64{c.serial})
		}},
		"a client is told of no effect": {"H8", func(k *checker, _, _ *node, c *sessionCommand) { k.checkToldNever(c) }},
		"a second answer":               {"H8", func(k *checker, _, _ *node, c *sessionCommand) { k.checkFirstAnswer(c, []byte{1}) }},
		"an effect of nobody's": {"H8", func(k *checker, _, _ *node, _ *sessionCommand) {
			k.checkEffects(entryOfSession(k), []uint64{1 << 40})
		}},
	} {
		t.Run(what, func(t *testing.T) {
			c, lead, follower, command := withSessions(t)
			require.Nil(t, c.failure)
			row.breach(c.check, lead, follower, command)
			require.NotNil(t, c.failure)
			assert.Equal(t, row.rule, c.failure.Rule, "%v", c.failure)
		})
	}
}
