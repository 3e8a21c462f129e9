package fuzzy

import (
	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// handle handles an event of a process. One that is paused does so later.
func (n *node) handle(e event) {
	if n.core == nil {
		return
	}
	if n.frozen && e.kind != evResume {
		n.deferred = append(n.deferred, e)
		return
	}
	switch e.kind {
	case evStep:
		n.step()
	case evWake:
		if e.a == int64(n.armed) { // otherwise the timer was set again
			n.wake()
		}
	case evWritten:
		if e.a == n.writes {
			n.written()
		}
	case evPersisted:
		n.post(raft.Persisted{Seq: raft.Seq(e.a)})
	case evFlush:
		n.flush()
	case evVault:
		n.vaultEvent(e.a)
	case evApply:
		n.apply()
	case evPeer:
		n.peerEvent(e.a)
	case evNews:
		n.tellNews(n.c.nodes[e.a])
	case evRelay:
		n.relayAgain(raft.RequestID(e.a))
	case evLie:
		n.hearsLie(e.a)
	case evShake:
		n.shake(n.c.nodes[e.a])
	case evRedial:
		n.redials()
	case evKept:
		n.kept(e.a)
	case evResume:
		n.resume()
	case evEnd:
		n.endRemoved(e.a > 0)
	case evFreeze:
		n.pauseFor(sim.Time(e.a))
	case evWork:
		n.delays.idle = false
		n.work()
	case evWorkEnds:
		n.endWork(e.a)
	case evUnhang:
		n.unhang()
	case evUnstick:
		n.unstick()
	case evTend:
		n.tends()
	case evDoze:
		n.fallAsleep()
	case evStall:
		n.stall(sim.Time(e.a))
	case evAsk:
		n.asks(e.a)
	case evGiven, evTold, evForget, evSeek, evServe, evContact, evOverdue:
		n.learns(e)
	case evExit:
		n.exit(sim.Time(e.a))
	}
}
