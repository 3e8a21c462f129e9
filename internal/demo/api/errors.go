package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
)

// Code is the stable name of an error.
type Code string

// The error codes. The request changed nothing, unless Uncertain reports true or the code is GivenUp.
const (
	BadRequest        Code = "bad_request"
	BadKey            Code = "bad_key"
	BadCondition      Code = "bad_condition"
	ValueTooLarge     Code = "value_too_large"
	HeaderTooLarge    Code = "header_too_large"
	BodyTimedOut      Code = "body_timed_out"
	NotJSON           Code = "not_json"
	CrossSite         Code = "cross_site" // a browser sent it for a page of another site
	WrongHost         Code = "wrong_host" // the Host header names no member
	NotFound          Code = "not_found"
	MethodNotAllowed  Code = "method_not_allowed"
	ConditionFailed   Code = "condition_failed"
	Overloaded        Code = "overloaded"
	NoLeader          Code = "no_leader"
	NotLeader         Code = "not_leader"
	LeaderUnreachable Code = "leader_unreachable"
	ReadTimedOut      Code = "read_timed_out"
	TransferFailed    Code = "transfer_failed"
	NoRoom            Code = "no_room"         // no room on the member's disk for a snapshot
	SnapshotFailed    Code = "snapshot_failed" // the member tries again by itself
	Unsupported       Code = "unsupported"
	NotReady          Code = "not_ready"
	Restoring         Code = "restoring" // a snapshot is being restored, so there is nothing to read
	Closed            Code = "closed"
	OutcomeUnknown    Code = "outcome_unknown"
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
	GivenUp           Code = "given_up" // the change began and was given up; no member was demoted or removed
	// RemovedMember: the answering member was removed from the cluster.
	RemovedMember Code = "removed"
	Internal      Code = "internal"
	// Unreachable is created by the client. Either the request did not reach the server, or the server did not answer a read.
	Unreachable Code = "unreachable"
	// BadResponse is created by the client: the answer does not come from a server of this store.
	BadResponse Code = "bad_response"
)

var statuses = map[Code]int{
	BadRequest:        http.StatusBadRequest,
	BadKey:            http.StatusBadRequest,
	BadCondition:      http.StatusBadRequest,
	ValueTooLarge:     http.StatusRequestEntityTooLarge,
	HeaderTooLarge:    http.StatusRequestHeaderFieldsTooLarge,
	BodyTimedOut:      http.StatusRequestTimeout,
	NotJSON:           http.StatusUnsupportedMediaType,
	CrossSite:         http.StatusForbidden,
	WrongHost:         http.StatusForbidden,
	NotFound:          http.StatusNotFound,
	MethodNotAllowed:  http.StatusMethodNotAllowed,
	ConditionFailed:   http.StatusPreconditionFailed,
	Overloaded:        http.StatusTooManyRequests,
	NoLeader:          http.StatusServiceUnavailable,
	NotLeader:         http.StatusServiceUnavailable,
	LeaderUnreachable: http.StatusServiceUnavailable,
	ReadTimedOut:      http.StatusServiceUnavailable,
	TransferFailed:    http.StatusConflict,
	NoRoom:            http.StatusInsufficientStorage,
	SnapshotFailed:    http.StatusInternalServerError,
	Unsupported:       http.StatusNotImplemented,
	NotReady:          http.StatusServiceUnavailable,
	Restoring:         http.StatusServiceUnavailable,
	Closed:            http.StatusServiceUnavailable,
	OutcomeUnknown:    http.StatusGatewayTimeout,
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
	GivenUp:           http.StatusGatewayTimeout,
	RemovedMember:     http.StatusGone,
}

// Error is the JSON body of every answer that is not a success. The client returns it as its error.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"` // what is wrong
	Remedy  string `json:"remedy"`  // what to do about it
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s", e.Code, e.Message)
	if e.Remedy != "" {
		s += " (" + e.Remedy + ")"
	}
	return s
}

// Status returns the HTTP status of the code.
func (e *Error) Status() int {
	if status, ok := statuses[e.Code]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// Transient reports whether the request changed nothing and may succeed a moment later, at this or another member.
func (e *Error) Transient() bool {
	switch e.Code {
	case Overloaded, NoLeader, NotLeader, LeaderUnreachable, ReadTimedOut, NotReady, Restoring, Closed, Unreachable,
		RemovedMember, ChangePending, WrongHost:
		return true
	}
	return false
}

// OfEarlierRelease reports whether the error answers a valid request for the members, because the server's release does not
// know the path or a field.
func (e *Error) OfEarlierRelease() bool {
	return e.Code == NotFound || e.Code == BadRequest && strings.Contains(e.Message, "unknown field")
}

// Errorf returns an error with this code and remedy.
func Errorf(code Code, remedy, format string, args ...any) *Error {
	return &Error{code, fmt.Sprintf(format, args...), remedy}
}

// CodeOf returns the code of the error. It returns "" for nil, and Internal for an error without a code.
func CodeOf(err error) Code {
	var e *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	}
	return Internal
}

// Uncertain reports whether a write that failed with the error may have been carried out.
func Uncertain(err error) bool {
	switch CodeOf(err) {
	case OutcomeUnknown, Internal, BadResponse:
		return true
	}
	return false
}

// Send makes the request once. If there was no connection, the server cannot have seen the request. Send then returns an
// *Error with Unreachable. If the request was or may have been sent, and no answer arrived, Send returns an *Error with
// OutcomeUnknown.
func Send(client *http.Client, r *http.Request) (*http.Response, error) {
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	response, err := client.Do(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err == nil {
		return response, nil
	}
	if cause := context.Cause(r.Context()); cause != nil {
		err = cause
	}
	if !connected.Load() {
		return nil, Errorf(Unreachable, "check that the server runs, or ask another one",
			"%s could not be reached: %v", r.URL.Host, err)
	}
	return nil, Unanswered(r.URL.Host, err)
}

// Unanswered returns the error for a request that may have reached the host but got no answer.
func Unanswered(host string, err error) *Error {
	return Errorf(OutcomeUnknown, "the request may or may not be carried out: read before you try again",
		"%s did not answer: %v", host, err)
}
