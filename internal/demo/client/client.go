// Package client talks to the members of the demo store.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
)

// answerBytesMax bounds the body of any answer: a value, or a page of keys.
const answerBytesMax = 8 << 20

// Client sends requests to one member, without retries. If that member names the leader, because the leader has to be asked
// itself, Client asks the leader. Its methods may be called from any goroutine. They return an
// *admin.Error. If a write fails, api.Uncertain reports whether it may still have been carried out.
type Client struct {
	base string
	http *http.Client
}

// New returns a client of the member with this base URL. Clients with the same http.Client share connections.
func New(base string, shared *http.Client) *Client {
	return &Client{strings.TrimSuffix(base, "/"), shared}
}

// NewHTTP returns an http.Client that keeps up to idle connections to each member. A request ends after the timeout.
func NewHTTP(parallel int, timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			MaxIdleConnsPerHost: parallel, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Value is a value and its revision.
type Value struct {
	Data     []byte
	Revision uint64
	Node     string // the member that answered
}

// Condition makes a write conditional. The zero value always holds.
type Condition struct {
	Absent   bool   // the key does not exist
	Revision uint64 // the key has this revision; 0: any
}

func (c Condition) header() http.Header {
	h := http.Header{}
	if c.Absent {
		h.Set("If-None-Match", "*")
	}
	if c.Revision != 0 {
		h.Set("If-Match", api.ETag(c.Revision))
	}
	return h
}

// Get returns the value of the key. The consistency is a text that api.ParseConsistency takes.
func (c *Client) Get(ctx context.Context, key, consistency string) (Value, error) {
	path := api.KeyPath(key) + "?consistency=" + url.QueryEscape(consistency)
	answer, err := c.do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return Value{}, err
	}
	revision, err := api.ParseETag(answer.header.Get("ETag"))
	if err != nil {
		return Value{}, c.badResponse(err)
	}
	return Value{answer.body, revision, answer.header.Get(api.NodeHeader)}, nil
}

// Put sets the value of the key if the condition holds.
func (c *Client) Put(ctx context.Context, key string, value []byte, condition Condition) (api.Written, error) {
	return request[api.Written](ctx, c, http.MethodPut, api.KeyPath(key), condition.header(), value)
}

// Delete removes the key if the condition holds. A missing key is not an error.
func (c *Client) Delete(ctx context.Context, key string, condition Condition) (api.Written, error) {
	return request[api.Written](ctx, c, http.MethodDelete, api.KeyPath(key), condition.header(), nil)
}

// List returns a page of the keys that begin with prefix and are above after. If limit is 0, the server uses its default. The
// consistency is as in Get.
func (c *Client) List(ctx context.Context, prefix, after string, limit int, consistency string) (api.Listing, error) {
	query := url.Values{"prefix": {prefix}, "after": {after}, "consistency": {consistency}}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return request[api.Listing](ctx, c, http.MethodGet, api.KeysPath+"?"+query.Encode(), nil, nil)
}

// Status returns the member's status.
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	return request[api.Status](ctx, c, http.MethodGet, admin.StatusPath, nil, nil)
}

// Ready returns nil if the member serves: it has a leader, and writes and reads finish. Otherwise it returns an admin.Error of
// code admin.NotReady, which gives the reason.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodGet, admin.ReadyPath, nil, nil)
	return err
}

// Transfer transfers the leadership to the named member; if to is "", the leader chooses the best candidate.
func (c *Client) Transfer(ctx context.Context, to string) (admin.Transferred, error) {
	path := admin.TransferPath + "?to=" + url.QueryEscape(to)
	return request[admin.Transferred](ctx, c, http.MethodPost, path, nil, nil)
}

// Snapshot asks the member to take a snapshot.
func (c *Client) Snapshot(ctx context.Context) (admin.Snapshotted, error) {
	return request[admin.Snapshotted](ctx, c, http.MethodPost, admin.SnapshotPath, nil, nil)
}

// Backup makes the member take a backup, and writes it to w. After an error, what was written is no backup.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+api.BackupPath, nil)
	if err != nil {
		return api.Errorf(admin.BadRequest, "check the server's URL", "%v", err)
	}
	response, err := api.Send(c.http, r)
	if err != nil {
		return ofRead(err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		if _, err = io.Copy(w, response.Body); err != nil {
			return fmt.Errorf("the backup of %s broke off: %w", r.URL.Host, cmp.Or(context.Cause(ctx), err))
		}
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, answerBytesMax)) // a part of it is no JSON
	err = c.failure(response, body)
	if api.CodeOf(err) == admin.NotFound {
		return api.Errorf(admin.EarlierRelease, "upgrade it, or take the backup from another member", "%s runs an earlier release, which takes no backups", c.base)
	}
	return err
}

// Members returns the configuration as the member knows it.
func (c *Client) Members(ctx context.Context) (admin.Members, error) {
	return request[admin.Members](ctx, c, http.MethodGet, admin.MembersPath, nil, nil)
}

// ChangeMembers asks the member to change the members.
func (c *Client) ChangeMembers(ctx context.Context, change admin.Change) (admin.Changed, error) {
	body, err := json.Marshal(change)
	if err != nil {
		return admin.Changed{}, api.Errorf(admin.BadRequest, "report this", "%v", err)
	}
	changed, err := request[admin.Changed](ctx, c, http.MethodPost, admin.MembersPath, http.Header{"Content-Type": {"application/json"}}, body)
	var failure *admin.Error
	if errors.As(err, &failure) && failure.Code == admin.BadRequest && strings.Contains(failure.Message, "unknown field") {
		err = api.Errorf(admin.EarlierRelease, "upgrade it first", "%s runs an earlier release, which cannot make this change: %s", c.base, failure.Message)
	}
	return changed, err
}

// request makes a request whose answer is JSON.
func request[T any](ctx context.Context, c *Client, method, path string, h http.Header, body []byte) (T, error) {
	var value T
	answer, err := c.do(ctx, method, path, h, body)
	if err != nil {
		return value, err
	}
	if err := json.Unmarshal(answer.body, &value); err != nil {
		return value, c.badResponse(err)
	}
	return value, nil
}

type answer struct {
	header http.Header
	body   []byte
}

func (c *Client) do(ctx context.Context, method, path string, h http.Header, body []byte) (answer, error) {
	a, err := c.ask(ctx, c.base, method, path, h, body)
	var failure *admin.Error
	if errors.As(err, &failure) && failure.Code == admin.NotLeader && api.IsURL(failure.LeaderURL) {
		if there, said := c.ask(ctx, failure.LeaderURL, method, path, h, body); api.CodeOf(said) != api.Unreachable {
			a, err = there, said
		}
	}
	if method == http.MethodGet {
		err = ofRead(err)
	}
	return a, err
}

// ofRead returns the error of a read, which has no outcome: a member whose answer does not come cannot be reached.
func ofRead(err error) error {
	var failure *admin.Error
	if errors.As(err, &failure) && failure.Code == admin.OutcomeUnknown {
		return &admin.Error{Code: api.Unreachable, Message: failure.Message, Remedy: "ask another member"}
	}
	return err
}

func (c *Client) ask(ctx context.Context, base, method, path string, h http.Header, body []byte) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(base, "/")+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, api.Errorf(admin.BadRequest, "check the server's URL", "%v", err)
	}
	for name, values := range h {
		r.Header[name] = values
	}
	return c.roundTrip(r)
}

func (c *Client) roundTrip(r *http.Request) (answer, error) {
	response, err := api.Send(c.http, r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax+1))
	switch {
	case err != nil:
		return answer{}, api.Unanswered(r.URL.Host, err)
	case len(body) > answerBytesMax:
		return answer{}, c.badResponse(fmt.Errorf("an answer of over %d bytes", answerBytesMax))
	case response.StatusCode/100 == 2:
		return answer{response.Header, body}, nil
	}
	return answer{}, c.failure(response, body)
}

// failure returns the error that an answer reports.
func (c *Client) failure(response *http.Response, body []byte) error {
	var failure admin.Error
	if err := json.Unmarshal(body, &failure); err != nil || failure.Code == "" {
		return c.badResponse(fmt.Errorf("status %s without an error in JSON", response.Status))
	}
	return &failure
}

func (c *Client) badResponse(err error) error {
	return api.Errorf(api.BadResponse, "check that "+c.base+" is a raftkv server", "%v", err)
}

// retryPause is the pause between two rounds of requests to all members.
const retryPause = 20 * time.Millisecond

// Try calls do with one member after another. It ends when do succeeds, when do fails with an error that another member would
// return as well, or when the context ends. After a failure, Try returns the most informative error. It does not retry an
// operation with an unknown outcome.
func Try[T any](ctx context.Context, members []*Client, do func(*Client) (T, error)) (T, error) {
	var none T
	var why *admin.Error // the most informative error; of several, the latest
	if len(members) == 0 {
		return none, errors.New("no server to ask: use --server URL")
	}
	for i := 0; ; i++ {
		value, err := do(members[i%len(members)])
		var failure *admin.Error
		if err == nil || !errors.As(err, &failure) || !api.Transient(failure) {
			return value, after(why, failure, err)
		}
		if why == nil || telling(failure) >= telling(why) {
			why = failure
		}
		if (i+1)%len(members) != 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return none, why
		case <-time.After(retryPause):
		}
	}
}

// after adds earlier answers of members to an error. It does so only if the error just reports that the last request got no
// answer.
func after(why, last *admin.Error, err error) error {
	if why == nil || last == nil || last.Code != admin.OutcomeUnknown {
		return err
	}
	return &admin.Error{Code: last.Code, Message: last.Message + "; before that: " + why.Message, Remedy: last.Remedy}
}

// telling ranks an error by its information about the cluster. The rank is lowest if a member does not answer. It is low if
// the member itself is the problem.
func telling(e *admin.Error) int {
	switch e.Code {
	case api.Unreachable:
		return 0
	case admin.Closed, api.Restoring, admin.WrongHost:
		return 1
	}
	return 2
}
