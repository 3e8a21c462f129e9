package raft

import "context"

// This file holds the question who is there: see docs/decisions/0045. It carries no message of the consensus, and changes no
// term, memory or lineage.

// Who asks the process at an address who it is. A member that looks for its cluster asks the addresses that it was given.
type Who struct {
	ClusterName string
	From        Peer      // the caller; incarnation 0, without a petition only: its store could not be read
	Address     string    // at which the others reach the caller
	Confirm     bool      // a leader is to answer only after a round with a quorum that began after the question
	Petition    *Petition // nil: the caller only asks
}

// Petition asks the leader to make the caller of Who a member: to add it, or to have it replace the lost disk of its id.
type Petition struct {
	Meta    string
	Learner bool // it is to stay a learner
}

// WhoReply is the answer to Who. It says what the answering member's own store and configuration hold, and never what this
// member has only heard of others.
type WhoReply struct {
	From         Peer
	ClusterName  string
	Cluster      ClusterID // zero: it belongs to none
	Term         Term
	Bootstrapper Peer     // of entry 1, if Cluster is not zero and it is known
	Founders     []NodeID // node.Config.Founders
	Address      string   // its own word: at which the others reach it
	Meta         string   // its own word
	Leader       NodeID   // "": it knows none
	Members      []Member // of the configuration in force, without Next and AppVersion
	Index        Index    // of that configuration; 0: none
	Committed    bool     // whether that configuration is known to be committed
	Confirmed    bool     // it leads, and a quorum has confirmed so since the question (Who.Confirm)
	Granted      bool     // the petition was carried out: the caller is a member
	Reason       string   // why the petition was not carried out, or not yet
}

// WhoCarrier is a Transport that can ask Who. Any goroutine may call its method.
type WhoCarrier interface {
	Transport
	// Who asks the process at the "host:port". The error says what answered instead, if anything did.
	Who(ctx context.Context, address string, q Who) (WhoReply, error)
}

// WhoHandler is a Handler that answers Who. A WhoCarrier calls Who on a goroutine of its own, for a caller that has proved its
// id, and no longer waits once ctx has ended. An error closes the connection without an answer.
type WhoHandler interface {
	Handler
	Who(ctx context.Context, q Who) (WhoReply, error)
}
