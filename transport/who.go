package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/coxswain/raft"
)

// whoWorkMax is how long the answer to Who may take if it needs a round with a quorum, or decides about a petition.
const whoWorkMax = 5 * time.Second

// whoTime returns how long the asked member may take for its answer.
func (o Options) whoTime(q raft.Who) time.Duration {
	if q.Confirm || q.Petition != nil {
		return whoWorkMax
	}
	return o.HandshakeTimeout
}

// Who implements raft.WhoCarrier. It connects to the address, asks, and closes the connection, also before Start. It takes at
// most DialTimeout and three times HandshakeTimeout, and 5 s more with q.Confirm or q.Petition. Each error is a *WhoError.
func (t *TCP) Who(ctx context.Context, address string, q raft.Who) (raft.WhoReply, error) {
	ctx, cancel := untilClosed(ctx, t.stop, t.options.DialTimeout+2*t.options.HandshakeTimeout+t.options.whoTime(q))
	defer cancel()
	reply, err := t.ask(ctx, address, q)
	if err == nil {
		return reply, nil
	}
	if t.isClosing() {
		err = raft.ErrClosed
	} else if ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", ctx.Err(), err)
	}
	return raft.WhoReply{}, &WhoError{Address: address, Err: err}
}

// untilClosed returns a context that ends after the limit, and once stop is closed.
func untilClosed(ctx context.Context, stop <-chan struct{}, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (t *TCP) ask(ctx context.Context, address string, q raft.Who) (raft.WhoReply, error) {
	if _, err := decodeWho(encodeWho(q)); err != nil {
		return raft.WhoReply{}, fmt.Errorf("this question cannot be sent: %w", err)
	}
	dialing, cancel := context.WithTimeout(ctx, t.options.DialTimeout)
	defer cancel()
	conn, err := t.connector(dialing, address)
	if err != nil {
		return raft.WhoReply{}, err
	}
	defer func() { _ = conn.Close() }()
	hasten(conn)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(t.options.HandshakeTimeout)); err != nil {
		return raft.WhoReply{}, err
	}
	secure, config, err := t.secureDialed(conn)
	if err != nil {
		return raft.WhoReply{}, fmt.Errorf("TLS handshake: %w", silence(err))
	}
	reply, err := t.exchange(secure, q)
	return reply, explainTLS(err, config)
}

// exchange sends the question and reads the answer.
func (t *TCP) exchange(conn net.Conn, q raft.Who) (raft.WhoReply, error) {
	if err := conn.SetDeadline(time.Now().Add(t.options.HandshakeTimeout + t.options.whoTime(q))); err != nil {
		return raft.WhoReply{}, err
	}
	asking := opening{versions: versions{raft.ProtocolFounding, ours.max}, who: &q}
	if _, err := conn.Write(asking.encode()); err != nil {
		return raft.WhoReply{}, silence(err)
	}
	answer, err := readOpening(newFrameReader(conn, t.options.FrameBytesMax))
	if err == io.EOF {
		err = fmt.Errorf("it closed the connection without an answer%s: %w", tlsHint, err)
	}
	if err != nil {
		return raft.WhoReply{}, silence(err)
	}
	return t.judgeReply(conn, q, answer)
}

// silence says what a deadline means for the caller of Who.
func silence(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("it accepted the connection, and did not answer in time: %w", err)
	}
	return err
}

// judgeReply decides whether the answer counts: it must come from a member of the caller's cluster.
func (t *TCP) judgeReply(conn net.Conn, q raft.Who, answer opening) (raft.WhoReply, error) {
	if r := answer.rejection; r != nil {
		if err := t.identify(conn, q.ClusterName, r.From.ID); err != nil {
			return raft.WhoReply{}, err
		}
		return raft.WhoReply{}, refusedQuestion(*r)
	}
	if answer.reply == nil {
		return raft.WhoReply{}, fmt.Errorf("%w: it answers a question with a handshake", ErrMalformed)
	}
	reply := *answer.reply
	if err := t.identify(conn, q.ClusterName, reply.From.ID); err != nil {
		return raft.WhoReply{}, err
	}
	return reply, checkReply(q, reply)
}

// refusedQuestion returns the error for a rejection of Who.
func refusedQuestion(r raft.Rejection) error {
	err := error(&RejectedError{By: r.From, Rejection: r})
	if r.VersionsMax > 0 && r.VersionsMax < raft.ProtocolFounding {
		return &EarlierReleaseError{Member: r.From, Speaks: r.VersionsMax, Err: err}
	}
	return err
}

// checkReply refuses the answer of another cluster's member. Without TLS, nothing else tells the two apart.
func checkReply(q raft.Who, reply raft.WhoReply) error {
	if reply.ClusterName == q.ClusterName {
		return nil
	}
	return &RejectedError{By: q.From, Rejection: wrongCluster(q.From, reply.ClusterName, q.ClusterName)}
}

// wrongCluster returns the rejection of a peer whose cluster has another name than that of the member `by`.
func wrongCluster(by raft.Peer, theirs, ours string) raft.Rejection {
	return raft.Rejection{
		Reason: raft.RejectClusterName, From: by, Detail: fmt.Sprintf("%q here, and %q there", ours, theirs),
	}
}

// answerWho answers the question, or sends the reason why it does not.
func (t *TCP) answerWho(e raft.Handler, conn net.Conn, q raft.Who) error {
	reply, err := t.replyTo(e, conn, q)
	if err != nil {
		t.warner.warn("a question who is here was not answered", "remote", conn.RemoteAddr(), "from", q.From.ID, "error", err)
		return t.sendRejection(conn, err)
	}
	t.counters.questions.Add(1)
	if err := conn.SetDeadline(time.Now().Add(t.options.HandshakeTimeout)); err != nil { // also for the caller to close
		return err
	}
	_, err = conn.Write(opening{versions: ours, reply: &reply}.encode())
	return err
}

// replyTo checks the caller, and lets the handler answer it.
func (t *TCP) replyTo(e raft.Handler, conn net.Conn, q raft.Who) (raft.WhoReply, error) {
	own := e.Hello(raft.Peer{})
	reject := func(r raft.Rejection) (raft.WhoReply, error) {
		return raft.WhoReply{}, &RejectedError{By: own.From, Rejection: r}
	}
	if err := t.identify(conn, q.ClusterName, q.From.ID); err != nil {
		return reject(raft.Rejection{Reason: raft.RejectCertificate, From: own.From, Detail: err.Error()})
	}
	if q.ClusterName != own.ClusterName {
		return reject(wrongCluster(own.From, q.ClusterName, own.ClusterName))
	}
	handler, ok := e.(raft.WhoHandler)
	if !ok {
		return reject(versionRejection(own.From))
	}
	end, ok := t.questions.begin(t.sourceOf(conn, q), time.Now())
	if !ok {
		return reject(raft.Rejection{Reason: raft.RejectBusy, From: own.From})
	}
	defer end()
	limit := t.options.whoTime(q)
	if err := conn.SetDeadline(time.Now().Add(limit + t.options.HandshakeTimeout)); err != nil {
		return raft.WhoReply{}, err
	}
	ctx, cancel := untilClosed(context.Background(), t.stop, limit)
	defer cancel()
	return handler.Who(ctx, q)
}

// versionRejection is the answer of a member whose Handler does not know Who. It is that of an earlier release.
func versionRejection(by raft.Peer) raft.Rejection {
	return raft.Rejection{Reason: raft.RejectVersion, From: by, VersionsMin: ours.min, VersionsMax: raft.ProtocolFounding - 1}
}

// sourceOf returns the name under which the questions of a caller are counted: what it has proved, or where it calls from.
func (t *TCP) sourceOf(conn net.Conn, q raft.Who) string {
	if t.options.secured() {
		return string(q.From.ID)
	}
	address := conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
