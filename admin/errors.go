package admin

import (
	"cmp"
	"fmt"
	"net/http"
)

// Code is the stable name of an error.
type Code string

// The error codes. The request changed nothing, unless the code is OutcomeUnknown, AnswerTooLarge, GivenUp or Internal.
const (
	BadRequest       Code = "bad_request"
	ValueTooLarge    Code = "value_too_large" // the body or the command is over its limit
	BodyTimedOut     Code = "body_timed_out"
	NotJSON          Code = "not_json"
	CrossSite        Code = "cross_site" // a browser sent it for a page of another site
	WrongHost        Code = "wrong_host" // the Host header names no member
	NotFound         Code = "not_found"
	MethodNotAllowed Code = "method_not_allowed"
	Overloaded       Code = "overloaded"
	NoLeader         Code = "no_leader"
	NotLeader        Code = "not_leader"
	ReadTimedOut     Code = "read_timed_out"
	TooStale         Code = "too_stale" // this member cannot prove that its state is as fresh as the read asks
	TransferFailed   Code = "transfer_failed"
	NoRoom           Code = "no_room"         // no room on the member's disk for a snapshot
	SnapshotFailed   Code = "snapshot_failed" // the member tries again by itself
	Unsupported      Code = "unsupported"
	NotReady         Code = "not_ready"
	Closed           Code = "closed"
	OutcomeUnknown   Code = "outcome_unknown"
	AnswerTooLarge   Code = "answer_too_large" // the command was applied, but its answer is too large to come from the leader
	Refused          Code = "refused"          // the leader has refused it for a reason that only its release knows
	// The codes of POST /members.
	UnknownMember     Code = "unknown_member"
	MemberExists      Code = "member_exists"
	MemberRuns        Code = "member_runs" // the member to replace has answered at the address of its replacement
	MemberUnreachable Code = "member_unreachable"
	NotEmpty          Code = "not_empty" // the store of the joining member is not empty
	WasRemoved        Code = "was_removed"
	AddressInUse      Code = "address_in_use"
	ChangePending     Code = "change_pending" // another change is running
	ConfigChanged     Code = "config_changed" // if_index no longer holds
	LastVoter         Code = "last_voter"
	NotElectable      Code = "not_electable" // all voters would have priority 0
	QuorumLoss        Code = "quorum_loss"   // too few of the new voters are heard
	EarlierRelease    Code = "earlier_release"
	LeaseTooLong      Code = "lease_too_long" // for the election timeout
	AppVersion        Code = "app_version"
	GivenUp           Code = "given_up" // the change began and was given up; no member was demoted or removed
	// RemovedMember: the answering member was removed from the cluster.
	RemovedMember Code = "removed"
	Internal      Code = "internal"
)

var statuses = map[Code]int{
	BadRequest:        http.StatusBadRequest,
	ValueTooLarge:     http.StatusRequestEntityTooLarge,
	BodyTimedOut:      http.StatusRequestTimeout,
	NotJSON:           http.StatusUnsupportedMediaType,
	CrossSite:         http.StatusForbidden,
	WrongHost:         http.StatusForbidden,
	NotFound:          http.StatusNotFound,
	MethodNotAllowed:  http.StatusMethodNotAllowed,
	Overloaded:        http.StatusTooManyRequests,
	NoLeader:          http.StatusServiceUnavailable,
	NotLeader:         http.StatusServiceUnavailable,
	ReadTimedOut:      http.StatusServiceUnavailable,
	TooStale:          http.StatusServiceUnavailable,
	TransferFailed:    http.StatusConflict,
	NoRoom:            http.StatusInsufficientStorage,
	SnapshotFailed:    http.StatusInternalServerError,
	Unsupported:       http.StatusNotImplemented,
	NotReady:          http.StatusServiceUnavailable,
	Closed:            http.StatusServiceUnavailable,
	OutcomeUnknown:    http.StatusGatewayTimeout,
	AnswerTooLarge:    http.StatusBadGateway,
	Refused:           http.StatusConflict,
	UnknownMember:     http.StatusNotFound,
	MemberExists:      http.StatusConflict,
	MemberRuns:        http.StatusConflict,
	MemberUnreachable: http.StatusBadGateway,
	NotEmpty:          http.StatusConflict,
	WasRemoved:        http.StatusConflict,
	AddressInUse:      http.StatusConflict,
	ChangePending:     http.StatusConflict,
	ConfigChanged:     http.StatusPreconditionFailed,
	LastVoter:         http.StatusConflict,
	NotElectable:      http.StatusConflict,
	QuorumLoss:        http.StatusConflict,
	EarlierRelease:    http.StatusConflict,
	LeaseTooLong:      http.StatusConflict,
	AppVersion:        http.StatusConflict,
	GivenUp:           http.StatusGatewayTimeout,
	RemovedMember:     http.StatusGone,
}

// Error is the JSON body of every answer that is not a success.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"` // what is wrong
	Remedy  string `json:"remedy"`  // what to do about it
	// Leader and LeaderURL name the leader if the code is NotLeader. LeaderURL is the leader's Meta.
	Leader    string `json:"leader,omitempty"`
	LeaderURL string `json:"leader_url,omitempty"`
	// Status is the HTTP status of the answer. 0 stands for that of the code, and for 500 if the code is not of this package.
	Status int `json:"-"`
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s", e.Code, e.Message)
	if e.Remedy != "" {
		s += " (" + e.Remedy + ")"
	}
	return s
}

// Write answers a request with the error.
func (e *Error) Write(w http.ResponseWriter) {
	switch e.Code {
	case Overloaded, NoLeader, NotLeader, ChangePending:
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, cmp.Or(e.Status, statuses[e.Code], http.StatusInternalServerError), e)
}

func errorf(code Code, remedy, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Remedy: remedy}
}
