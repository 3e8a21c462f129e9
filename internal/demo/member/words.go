package member

import (
	"errors"
	"fmt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/hashicorp/go-hclog"
)

// commandWords is a logger that names flags and commands. The errors of the library name functions and fields instead.
type commandWords struct{ hclog.Logger }

func (w commandWords) Log(level hclog.Level, message string, args ...any) {
	w.Logger.Log(level, message, inCommands(args)...)
}

func (w commandWords) Warn(message string, args ...any) { w.Logger.Warn(message, inCommands(args)...) }

func inCommands(args []any) []any {
	said := make([]any, len(args))
	for i, arg := range args {
		said[i] = arg
		if err, is := arg.(error); is {
			said[i] = asCommand(err)
		}
	}
	return said
}

// asCommand returns the text to log for an error.
func asCommand(err error) any {
	var refused *raft.Rejection
	switch {
	case errors.As(err, &refused) && !refused.Asked():
		return refusal(refused)
	case errors.Is(err, node.ErrWiped):
		return "the cluster knows this member with another disk, so this disk is empty or was emptied: " +
			"raftkv members replace, --join or --seeds puts it in the place of the other"
	}
	return err
}

// refusal returns a sentence about a refused connection. The sentence names the member that refuses, the reason, and the flag
// or command that helps.
func refusal(r *raft.Rejection) string {
	remedy := map[raft.RejectReason]string{
		raft.RejectClusterName: "give all members the same --cluster",
		raft.RejectWrongID: "the addresses of two members are mixed up: raftkv members shows them, and raftkv members address corrects one; " +
			"before the first start, correct --peers",
		raft.RejectWrongIncarnation: fmt.Sprintf("the disk of %s was emptied: raftkv members replace %s", r.From.ID, r.From.ID),
		raft.RejectOtherCluster:     "two clusters have one --cluster name: check --peers or --join, and --data",
		raft.RejectNamedOther:       "the disk of the caller was emptied: raftkv members replace, with its id",
		raft.RejectListDiffers:      "give all members the same --peers",
		raft.RejectStaleStart: "the caller runs on an older image of its disk: put the newest one back, or start the caller with --join, " +
			"which sets this disk aside",
		raft.RejectLate: "if the handshake was delayed, this passes by itself; if not, the caller is a machine that was set back " +
			"while it ran: put its newest disk back, or start the caller with --join, which sets this disk aside",
		raft.RejectUnknownStart: "the caller was started too often since the two last met: if its disk is an older image, put the newest one " +
			"back; otherwise start it with an empty --data and --join",
		raft.RejectTwin: "if this does not pass by itself, two processes run on copies of one disk: end one of them, and start it with an empty " +
			"--data and --join",
		raft.RejectOwnImage: fmt.Sprintf("%s runs on an older image of its disk: put the newest one back, or start %s with --join, "+
			"which sets this disk aside", r.From.ID, r.From.ID),
		raft.RejectRemoved: fmt.Sprintf("the caller was removed by configuration %d: end it, or start it with --rejoin %[1]d beside --join or "+
			"--seeds, which sets its store aside and joins anew", r.Index),
		raft.RejectCertificate: "--tls-cert must be a certificate for the member's own --cluster and --id",
	}[r.Reason]
	if remedy == "" {
		return r.Error()
	}
	said := fmt.Sprintf("member %q refuses the connection: %v", r.From.ID, r.Reason)
	if r.Detail != "" {
		said += " (" + r.Detail + ")"
	}
	return said + "; " + remedy
}
