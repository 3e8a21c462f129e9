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
		"Without a list of successors, timeouts are random, and drawn anew for each attempt: a vote that is split is held again.", "preference.go", "resetElectionDeadline",
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

// The preferences: who campaigns when. Each can be switched off.
var (
	coreNews = &CorePart{
		"News: a member that learns from its connections that its leader's process has ended does not wait for a timeout, and votes at once for another.",
		"preference.go", "onNews",
	}
	coreNewsEnds = &CorePart{
		"News ends when the leader is heard again in its term, so wrong news to a minority replaces no leader.", "append.go", "hear",
	}
	coreSuccessors = &CorePart{
		"Successors: heartbeats name, in order, the voters that could take over: those that have just answered, are not far behind, and whose disk and FSM work.",
		"preference.go", "successors",
	}
	coreRank = &CorePart{
		"A member's wait for the leader grows with its rank among the successors, so that the first one is elected before the next one campaigns.",
		"preference.go", "rank",
	}
	coreSpan = &CorePart{
		"Ranks are as far apart as an election takes: a round trip to the slowest voter, and two durable votes.", "preference.go", "electionSpan",
	}
	coreRetry = &CorePart{
		"An attempt that fails is repeated after a few such spans, drawn at random, instead of after a timeout.", "preference.go", "campaignAgain",
	}
	corePriority = &CorePart{
		"Priorities: each voter has one, in the replicated configuration; the higher ones come first among the successors.", "preference.go", "priority",
	}
	coreTakeover = &CorePart{
		"Takeover: a leader transfers its leadership to a voter of higher priority, once it has led for ten seconds.", "preference.go", "onTakeover",
	}
	coreBackOff = &CorePart{
		"A favourite that loses its leadership again and again counts as one without priority for a while, which doubles, and is durable.",
		"preference.go", "countLoss",
	}
	coreStandby = &CorePart{
		"A standby, of priority 0, votes and stores, and leads only as a caretaker, if no other voter can.", "election.go", "standsBack",
	}
)

// coreParts lists all that the core has, in the order of the document.
var coreParts = []*CorePart{
	coreMajority, coreVote, corePreVote, coreStickiness, coreCheckQuorum, coreNamesLeader, coreResigns, coreRedraw, coreRoom,
	coreBounded, coreOnlyVoters, coreTransfer, coreTarget, coreNews, coreNewsEnds, coreSuccessors, coreRank, coreSpan, coreRetry,
	corePriority, coreTakeover, coreBackOff, coreStandby,
}

// What the core does not have.
var (
	lackConsecutive = &CoreLack{"a number of consecutive wins before one leads", "consecutive"}
	lackTie         = &CoreLack{"a tie that has one known winner", "tie"}
	lackGroups      = &CoreLack{"a leader for each partition of the data: many groups in one process", ""}
)

// coreLacks lists what the sources suggest and the core does not have, in the order of the document.
var coreLacks = []*CoreLack{
	lackConsecutive, lackTie, lackGroups,
}
