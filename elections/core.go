package elections

import (
	"fmt"
	"strings"
)

// CorePart is a feature of the Raft core, and the function that implements it.
type CorePart struct{ What, File, Func string }

// String returns what it is, and where.
func (p *CorePart) String() string {
	return fmt.Sprintf("%s (%s: %s).", strings.TrimSuffix(p.What, "."), p.File, p.Func)
}

// CoreLack is a feature that the Raft core does not have.
type CoreLack struct {
	What string
	Word string // occurs in no identifier of the core, as it would if the core had this; empty: a separate test checks it
}

// The features that the core has. Each algorithm with a similar feature names the feature here.
var (
	coreBounded = &CorePart{
		"A member makes one attempt per wait, and the wait doubles while answers take longer.", "attempts.go", "raiseWait",
	}
	coreRedraw = &CorePart{
		"Timeouts are random, and drawn anew for each attempt: a vote that is split is held again.", "election.go", "resetElectionDeadline",
	}
	coreRoom = &CorePart{
		"A member that grants a pre-vote puts off its own attempt, but only once.", "election.go", "deferCampaign",
	}
	coreOnlyVoters = &CorePart{
		"Only members that vote, or may still be needed as leader, campaign: a learner that stays one never leads.", "election.go", "mayCampaign",
	}
	coreResigns = &CorePart{
		"A leader that steps down says so, and its followers do not wait for a timeout.", "election.go", "onSteppedDown",
	}
	coreNamesLeader = &CorePart{
		"A refused pre-vote names the leader and its term: a member that rejoins finds it in one hop.", "election.go", "leaderNamedIn",
	}
	corePreVote = &CorePart{
		"PreVote: the term is raised only if a majority would vote for the candidate.", "election.go", "precampaign",
	}
	coreStickiness = &CorePart{
		"Leader stickiness: a member that hears a leader votes for no candidate, unless that leader transfers its leadership.", "election.go", "hearsLeader",
	}
	coreCheckQuorum = &CorePart{
		"CheckQuorum: a leader that no majority answers steps down.", "heartbeat.go", "quorumUntil",
	}
	coreVote = &CorePart{
		"One vote a term, durable before it leaves, and only for a log that is new enough.", "election.go", "grants",
	}
	coreMajority = &CorePart{
		"A leader has the votes of a majority of the configured voters.", "quorum.go", "hasQuorum",
	}
	coreTransfer = &CorePart{
		"Transfer: the leader tells another voter to campaign: on request, at an orderly shutdown, once it is removed, or when its disk " +
			"stalls or is full, or its FSM hangs.",
		"transfer.go", "beginTransfer",
	}
	coreTarget = &CorePart{
		"A transfer goes to the named voter, or else to the one with the longest log, but never to one that has been silent for an election timeout.",
		"transfer.go", "transferTarget",
	}
)

// coreParts lists all that the core has, in the order of the document.
var coreParts = []*CorePart{
	coreMajority, coreVote, corePreVote, coreStickiness, coreCheckQuorum, coreNamesLeader, coreResigns, coreRedraw, coreRoom,
	coreBounded, coreOnlyVoters, coreTransfer, coreTarget,
}

// What the core does not have.
var (
	lackTie         = &CoreLack{"a tie that has one known winner", "tie"}
	lackRank        = &CoreLack{"rank as a preference", "rank"}
	lackBackOff     = &CoreLack{"a back-off for a favourite that keeps failing", "favourite"}
	lackSuccessors  = &CoreLack{"successors that the leader's heartbeats name", "successor"}
	lackPriority    = &CoreLack{"priorities of voters, and with them voters of priority 0, which never campaign", "priority"}
	lackStagger     = &CoreLack{"timeouts that are staggered by rank", "stagger"}
	lackTakeover    = &CoreLack{"a takeover by a voter of higher priority", "takeover"}
	lackConsecutive = &CoreLack{"a number of consecutive wins before one leads", "consecutive"}
	lackGroups      = &CoreLack{"a leader for each partition of the data: many groups in one process", ""}
	lackHint        = &CoreLack{"a broken connection to the leader as a hint to campaign sooner", ""}
)

// coreLacks lists what the sources suggest and the core does not have, in the order of the document.
var coreLacks = []*CoreLack{
	lackRank, lackBackOff, lackSuccessors, lackPriority, lackStagger, lackTakeover, lackConsecutive, lackTie, lackHint, lackGroups,
}
