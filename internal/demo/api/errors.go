package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/coxswain/raft/admin"
)

// The error codes of keys and values, of the HTTP server, and of clients, in addition to those of package admin. The request
// changed nothing, unless Uncertain reports true or the code is GivenUp.
const (
	BadKey          admin.Code = "bad_key"
	BadCondition    admin.Code = "bad_condition"
	HeaderTooLarge  admin.Code = "header_too_large"
	ConditionFailed admin.Code = "condition_failed"
	BadSession      admin.Code = "bad_session" // headers of a session that cannot be read, or some of them are missing
	// The session has ended, or the number of the write is too low or too high. An earlier copy of it may have been carried out.
	SessionExpired  admin.Code = "session_expired"
	SessionAnswered admin.Code = "session_answered"
	SessionWindow   admin.Code = "session_window"
	Restoring       admin.Code = "restoring" // a snapshot is being restored, so there is nothing to read
	// Unreachable is created by the client. Either the request did not reach the server, or the server did not answer a read.
	Unreachable admin.Code = "unreachable"
	// BadResponse is created by the client: the answer does not come from a server of this store.
	BadResponse admin.Code = "bad_response"
)

var statuses = map[admin.Code]int{
	BadKey:          http.StatusBadRequest,
	BadCondition:    http.StatusBadRequest,
	HeaderTooLarge:  http.StatusRequestHeaderFieldsTooLarge,
	ConditionFailed: http.StatusPreconditionFailed,
	BadSession:      http.StatusBadRequest,
	SessionExpired:  http.StatusGone,
	SessionAnswered: http.StatusConflict,
	SessionWindow:   http.StatusConflict,
	Restoring:       http.StatusServiceUnavailable,
}

// Errorf returns an error with this code and remedy.
func Errorf(code admin.Code, remedy, format string, args ...any) *admin.Error {
	return &admin.Error{Code: code, Message: fmt.Sprintf(format, args...), Remedy: remedy, Status: statuses[code]}
}

// Transient reports whether the request changed nothing and may succeed a moment later, at this or another member.
func Transient(e *admin.Error) bool {
	switch e.Code {
	case admin.Overloaded, admin.NoLeader, admin.NotLeader, admin.ReadTimedOut, admin.TooStale, admin.NotReady, Restoring, admin.Closed, Unreachable,
		admin.RemovedMember, admin.ChangePending, admin.WrongHost:
		return true
	}
	return false
}

// CodeOf returns the code of the error. It returns "" for nil, and Internal for an error without a code.
func CodeOf(err error) admin.Code {
	var e *admin.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	}
	return admin.Internal
}

// Uncertain reports whether a write that failed with the error may have been carried out.
func Uncertain(err error) bool {
	switch CodeOf(err) {
	case admin.OutcomeUnknown, admin.AnswerTooLarge, admin.Internal, BadResponse, SessionExpired, SessionAnswered, SessionWindow:
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
func Unanswered(host string, err error) *admin.Error {
	return Errorf(admin.OutcomeUnknown, "the request may or may not be carried out: read before you try again",
		"%s did not answer: %v", host, err)
}
