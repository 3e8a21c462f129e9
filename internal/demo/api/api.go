// Package api defines what the server and the clients of the demo store share: paths, headers, error codes and JSON bodies.
// Package admin defines those that do not concern keys and values.
package api

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
)

// KeysPath is the path of the listing; KeysPath + "/" + KeyPath(key) is one key. The other paths are those of package admin.
const KeysPath = "/kv"

// BackupPath is the path at which GET takes a backup.
const BackupPath = "/backup"

// SessionPath is the path at which POST opens a session.
const SessionPath = "/session"

// Headers.
const (
	// NodeHeader is a response header that names the member that answers.
	NodeHeader = "Raftkv-Node"
	// AppliedHeader is a response header of reads. It holds the raft index up to which the answering member had applied the
	// log.
	AppliedHeader = "Raftkv-Applied"
	// These are request headers of a write that takes effect once, however often it is sent: the id of a session, the number of
	// the write in it, from 1, and the lowest number whose answer the client still waits for.
	SessionHeader       = "Session"
	SessionNumberHeader = "Session-Number"
	SessionFloorHeader  = "Session-Floor"
)

// Values of the query parameter "consistency" of reads. Another one is "stale=AGE": sees what this member has, if that is
// provably no older.
const (
	Linearizable = "linearizable" // the default: sees every write acknowledged before the read began
	Lease        = "lease"        // the same, and faster while the leader has a lease
	Stale        = "stale"        // sees what this member has, however old; works without a leader
)

// ParseConsistency parses such a value. A read that may see any state, as with Stale, need not be confirmed.
func ParseConsistency(text string) (c raft.Consistency, confirmed bool, err error) {
	switch text {
	case "", Linearizable:
		return raft.Linearizable, true, nil
	case Lease:
		return raft.Lease, true, nil
	case Stale:
		return 0, false, nil
	}
	age, hasAge := strings.CutPrefix(text, Stale+"=")
	maxAge, err := time.ParseDuration(age)
	if c = raft.Stale(maxAge); !hasAge || err != nil || c.Validate() != nil {
		return 0, false, Errorf(admin.BadRequest,
			"use linearizable, lease, stale=2s for a state at most that old, or stale for any", "bad consistency %q", text)
	}
	return c, true, nil
}

// Limits of a listing.
const (
	ListLimitDefault = 100
	ListLimitMax     = 1000
)

// KeyPath returns the path of a key. It escapes everything but letters, digits, "-", "_" and "~", because proxies may
// resolve dots and slashes.
func KeyPath(key string) string {
	escaped := strings.ReplaceAll(url.QueryEscape(key), "+", "%20")
	return KeysPath + "/" + strings.ReplaceAll(escaped, ".", "%2E")
}

// IsURL reports whether the text is a base URL of a server.
func IsURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// CheckURL returns an error if clients cannot ask a server at this URL.
func CheckURL(text string) error {
	if u, err := url.Parse(text); err == nil && IsURL(text) && u.Hostname() != "" && !net.ParseIP(u.Hostname()).IsUnspecified() {
		return nil
	}
	return fmt.Errorf("%q is not a URL at which others can reach a server; write http://host:port", text)
}

// ETag returns the entity tag of a revision.
func ETag(revision uint64) string { return `"` + strconv.FormatUint(revision, 10) + `"` }

// ParseETag parses one entity tag, as written by ETag.
func ParseETag(tag string) (uint64, error) {
	inner, ok := strings.CutPrefix(tag, `"`)
	inner, ok2 := strings.CutSuffix(inner, `"`)
	revision, err := strconv.ParseUint(inner, 10, 64)
	if !ok || !ok2 || err != nil {
		return 0, fmt.Errorf("%q is not an entity tag of this store; they look like %s", tag, ETag(42))
	}
	return revision, nil
}

// Written is the body of the answer to PUT and DELETE.
type Written struct {
	Revision uint64 `json:"revision"` // raft index of this change
	Existed  bool   `json:"existed"`  // whether the key existed before
}

// Session is the body of the answer to POST /session.
type Session struct {
	Session string `json:"session"` // its id
}

// Listing is the body of the answer to GET /kv.
type Listing struct {
	Items []Listed `json:"items"`
	// Next is the value of "after" for the next page. It is empty on the last page.
	Next string `json:"next,omitempty"`
}

// Listed is one key of a Listing.
type Listed struct {
	Key      string `json:"key"`
	Revision uint64 `json:"revision"`
	Bytes    int    `json:"bytes"` // size of the value
}

// Status is the body of the answer to GET /status.
type Status struct {
	admin.Status
	Keys int `json:"keys"` // number of keys; 0 while a snapshot is restored
}

// ReplaceHint returns a sentence about a member that does not count again before its replacement. The sentence gives the
// remedy.
func ReplaceHint(id string) string {
	return "start it with an empty --data directory, and run: raftkv members replace " + id
}

// List joins ids with spaces.
func List(ids []string) string { return strings.Join(ids, " ") }
