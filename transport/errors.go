package transport

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/coxswain/raft"
)

// The errors of a stream match these errors. If such an error occurs, the transport closes the connection and counts the
// error in Stats. The caller of the connection then dials again.
var (
	// ErrMalformed: the peer sent bytes that a correct member never sends.
	ErrMalformed = errors.New("transport: malformed frame")
	// ErrOversized: a frame or message exceeds the limit of its type. If a correct member sent an append, that member runs a
	// release before v0.3.1, and its Options.FrameBytesMax is larger than that of this member. Make the two equal.
	ErrOversized = errors.New("transport: oversized frame")
	// ErrWrongSender: a message names a sender that is not the peer of the handshake.
	ErrWrongSender = errors.New("transport: message claims another sender")
	// ErrVersion: the two members have no protocol version in common. Upgrade the older member.
	ErrVersion = errors.New("transport: no protocol version in common")
)

// errNotNamed: Connect no longer names the peer, or not at that address.
var errNotNamed = errors.New("transport: peer is no longer named at this address")

// NotConnectedError reports that a message was not sent because the peer is not connected. Send the message again after a
// call of Handler.Up.
type NotConnectedError struct {
	Peer raft.NodeID
	Err  error // the reason; nil if the peer was never dialed, or is unknown
}

func (e *NotConnectedError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("transport: not connected to %q: not dialed yet, or not named by Connect", e.Peer)
	}
	return fmt.Sprintf("transport: not connected to %q: %v", e.Peer, e.Err)
}

func (e *NotConnectedError) Unwrap() error { return e.Err }

// Is reports that the error matches raft.ErrNotSent.
func (e *NotConnectedError) Is(target error) bool { return target == raft.ErrNotSent }

// RejectedError reports that one side of a handshake rejected the other. Rejection says how to repair the cause.
type RejectedError struct {
	// By is the side that rejected the other: this member or the dialed peer. If the contact of that peer was open, the
	// incarnation is 0.
	By        raft.Peer
	Rejection raft.Rejection
}

func (e *RejectedError) Error() string {
	return "transport: " + strings.TrimPrefix(e.Rejection.Error(), "raft: ")
}

// Unwrap returns the rejection, a *raft.Rejection.
func (e *RejectedError) Unwrap() error { return &e.Rejection }

// WrongMemberError reports that another member answered at the address of the dialed one. Correct the address. If only the
// incarnations differ, the member was replaced, or its disk was emptied.
type WrongMemberError struct {
	Dialed, Answered raft.Peer
}

func (e *WrongMemberError) Error() string {
	if e.Dialed.ID == e.Answered.ID {
		return fmt.Sprintf("transport: dialed incarnation %v of %q, but incarnation %v answered: it was replaced, or its disk was emptied",
			e.Dialed.Incarnation, e.Dialed.ID, e.Answered.Incarnation)
	}
	return fmt.Sprintf("transport: dialed %q, but %q answered: correct the address", e.Dialed.ID, e.Answered.ID)
}

// WhoError reports that nobody at the address answered Who as a member of the caller's cluster. Err says who or what answered
// instead: a *RejectedError, an *EarlierReleaseError, a *CertificateError, an *InsecureError, an error that matches
// ErrMalformed, ErrVersion or os.ErrDeadlineExceeded (a process that accepts and is silent), or the error of the dial.
type WhoError struct {
	Address string
	Err     error
}

func (e *WhoError) Error() string {
	return fmt.Sprintf("transport: who is at %s: %s", e.Address, strings.TrimPrefix(e.Err.Error(), "transport: "))
}

func (e *WhoError) Unwrap() error { return e.Err }

// EarlierReleaseError reports that the member at an address runs a release before v0.7.0, which does not know the question
// Who. Upgrade it, or ask another address.
type EarlierReleaseError struct {
	Member raft.Peer
	Speaks uint16 // the newest protocol version that it knows
	Err    error  // its rejection, a *RejectedError
}

func (e *EarlierReleaseError) Error() string {
	return fmt.Sprintf("transport: %q runs a release before v0.7.0 (protocol version %d), which cannot say who it is: upgrade it",
		e.Member.ID, e.Speaks)
}

func (e *EarlierReleaseError) Unwrap() error { return e.Err }

// Is reports that the error matches ErrVersion.
func (e *EarlierReleaseError) Is(target error) bool { return target == ErrVersion }

// CertificateError reports that a peer's certificate does not belong to the member that it claims to be.
type CertificateError struct {
	Member raft.NodeID // the id that the peer claims
	Err    error
}

func (e *CertificateError) Error() string {
	return fmt.Sprintf("transport: certificate of %q: %v: see docs/runbook.md#certificate-refused", e.Member, e.Err)
}

func (e *CertificateError) Unwrap() error { return e.Err }

// OfCertificate marks the error for a node, which does not know this package.
func (e *CertificateError) OfCertificate() {}

// CertificateTimeError reports that a peer's certificate, or one that signed it, has expired or is not valid
// yet. Renew the certificate, or correct the clock of the member that reports the error.
type CertificateTimeError struct {
	NotBefore, NotAfter time.Time // the certificate's period of validity
	Now                 time.Time // time of the member that reports the error
	Err                 error     // error of crypto/tls or crypto/x509
}

func (e *CertificateTimeError) Error() string {
	now := e.Now.UTC().Format(time.RFC3339)
	if e.Now.Before(e.NotBefore) {
		return fmt.Sprintf("the certificate is not valid before %s, and it is %s here: is a clock wrong?: see docs/runbook.md#certificate-refused",
			e.NotBefore.UTC().Format(time.RFC3339), now)
	}
	return fmt.Sprintf("the certificate expired at %s, and it is %s here: renew it: see docs/runbook.md#certificate-refused", e.NotAfter.UTC().Format(time.RFC3339), now)
}

func (e *CertificateTimeError) Unwrap() error { return e.Err }

// TLSFieldError refuses a field of Options.TLS, or of what Options.TLSSource returns. With this field, the member could not verify its peers, or the peers could
// not verify the member. Correct the field as Remedy says.
type TLSFieldError struct {
	Field  string // name of the field in tls.Config; "": the whole configuration
	Remedy string
}

func (e *TLSFieldError) Error() string {
	if e.Field == "" {
		return "Options.TLS: " + e.Remedy
	}
	return "Options.TLS." + e.Field + ": " + e.Remedy
}

// InsecureError refuses to use an address beyond loopback without TLS, either to listen or to dial. Set Options.TLS. If the
// network is private, you may set Options.Insecure instead.
type InsecureError struct {
	Address string
}

func (e *InsecureError) Error() string {
	return "transport: " + e.Address + " is not a loopback address, and TLS is not configured: " +
		"set Options.TLS, or Options.Insecure on a private network"
}

// ListenError reports that the transport cannot listen on the address. Most likely, another process uses the address, or the
// address does not belong to this host.
type ListenError struct {
	Address string
	Err     error
}

func (e *ListenError) Error() string {
	return fmt.Sprintf("transport: cannot listen on %s: %v", e.Address, e.Err)
}

func (e *ListenError) Unwrap() error { return e.Err }

// errNobodyListens has the same meaning for the Memory transport as ECONNREFUSED has for TCP.
var errNobodyListens = errors.New("transport: the host answered, but nobody listens there")

// nobodyListens reports whether err means that the peer's host answered a dial, but no process listens there.
func nobodyListens(err error) bool {
	return errors.Is(err, connRefused) || errors.Is(err, errNobodyListens)
}

// cutOff reports whether err means that a connection ended before the peer answered.
func cutOff(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, connReset)
}

// closedHere reports whether this member closed the connection that ended with err. Otherwise the peer or the network did.
func closedHere(err error) bool {
	for _, own := range []error{errNotNamed, os.ErrDeadlineExceeded, ErrMalformed, ErrOversized, ErrWrongSender} {
		if errors.Is(err, own) {
			return true
		}
	}
	return false
}

// refusedBy returns the rejection that ended a dial, if the peer sent it. It returns false if this member rejected the peer,
// or if there is no rejection.
func refusedBy(err error, peer raft.Peer) (raft.Rejection, bool) {
	var rejected *RejectedError
	if errors.As(err, &rejected) && rejected.By == peer {
		return rejected.Rejection, true
	}
	return raft.Rejection{}, false
}
