package member

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var self = admin.NewMember{ID: "n3", Address: "h:3", URL: "http://h:3"}

// led returns the answer of the leader n1 about a configuration that names n1 and the others.
func led(others ...admin.ClusterMember) admin.Members {
	return admin.Members{
		ID: "n1", Leader: "n1", Cluster: "c", Index: 7, Committed: true,
		Members: append([]admin.ClusterMember{{ID: "n1", Incarnation: "1", Kind: "voter"}}, others...),
	}
}

func TestJoin_AsksForWhatIsLeftToDo(t *testing.T) {
	blank, itself := admin.Members{ID: "n9", Cluster: "c"}, admin.Members{ID: "n3", Cluster: "c"}
	leaderless := led()
	leaderless.Leader = ""
	voter := admin.ClusterMember{ID: "n3", Incarnation: "9", Kind: "voter"}
	follower, other, changes, uncommitted := led(), led(), led(), led(voter)
	follower.ID, other.Cluster, changes.Change = "n2", "d", &admin.Changing{Stage: admin.StageJoint}
	uncommitted.Committed = false
	lost := admin.ClusterMember{ID: "n3", Incarnation: "8", Kind: "voter", Replace: true, LastContactMS: 10}
	runs := admin.ClusterMember{ID: "n3", Incarnation: "8", Kind: "voter", Address: "h:8", LastContactMS: 10}
	mine := admin.ClusterMember{ID: "n3", Incarnation: "9", Kind: "learner"}
	left := admin.ClusterMember{ID: "n3", Incarnation: "7", Kind: "learner", Replace: true}
	leftRuns := admin.ClusterMember{ID: "n3", Incarnation: "7", Kind: "learner", LastContactMS: 10}
	adds := &admin.Change{IfIndex: 7, Add: []admin.NewMember{self}}
	replaces := &admin.Change{IfIndex: 7, Replace: []admin.Replacement{{Old: admin.Peer{ID: "n3", Incarnation: "8"}, New: self}}}
	promotes := &admin.Change{IfIndex: 7, Promote: []admin.Peer{{ID: "n3"}}}
	removes := &admin.Change{IfIndex: 7, Remove: []admin.Peer{{ID: "n3", Incarnation: "7"}}}
	for _, row := range []struct {
		rule   string
		asked  bool
		now    admin.Members
		change *admin.Change
		member bool
		says   string
	}{
		{"it is not named", false, led(), adds, false, "does not name it"},
		{"it votes", false, led(voter), nil, true, ""},
		{"… in a configuration that may be rolled back", true, uncommitted, nil, false, "configuration 7 is not committed yet"},
		{"somebody has made it a learner", false, led(mine), nil, true, ""},
		{"a change that was given up has left a learner", true, led(mine), promotes, false, "is to vote"},
		{"another change is running", false, changes, nil, false, "another membership change is running"},
		{"another cluster", false, other, nil, false, `n1 is of cluster "d", not of "c": correct --join or --cluster`},
		{"only a follower answers", false, follower, nil, false, "n2 answers, and n1, which leads, does not"},
		{"nobody leads", false, leaderless, nil, false, "n1 answers, but knows no leader"},
		{"a URL of another one that waits", false, blank, nil, false, "n9 answers, but knows no cluster yet"},
		{"its own URL", false, itself, nil, false, "only this member itself answers: give --join the URLs of other servers"},
		{"the disk of its id was lost", false, led(lost), replaces, false, "is lost"},
		{"… and a replacement was given up", true, led(lost, mine), replaces, false, "is lost"},
		{"… and this member was started again since", false, led(lost, mine), replaces, false, "is lost"},
		{"another disk began to take its place, and was lost, too", false, led(left, lost), removes, false, "is lost, too"},
		{"… and that one runs", false, led(leftRuns, lost), nil, false, "n3 is a member already"},
		{"… and the member itself runs", false, led(left, runs), nil, false, "n3 is a member already, at h:8"},
		{"its id runs elsewhere", false, led(runs), nil, false, "n3 is a member already, at h:8"},
	} {
		j := joiner{self: self, incarnation: "9", cluster: "c", asked: row.asked}
		change, reason := j.decide(row.now, time.Now())
		assert.Equal(t, row.change, change, row.rule)
		assert.Equal(t, row.member, j.member, row.rule)
		assert.Contains(t, reason, row.says, row.rule)
	}
}

// The disk of n3 was lost. The first disk that was to replace it was lost, too. The cluster can carry out each change that
// the third disk asks for.
func TestJoin_AfterTheDiskWasLostTwice(t *testing.T) {
	config := raft.NewConfiguration([]raft.Member{
		{ID: "n1", Address: "h:1", Incarnation: 1}, {ID: "n2", Address: "h:2", Incarnation: 2},
		{ID: "n3", Address: "h:3", Incarnation: 7, Kind: raft.Learner}, {ID: "n3", Address: "h:3", Incarnation: 8},
	})
	config.Level = 1
	require.NoError(t, config.Validate())
	run := raft.ConfigRun{Index: 7, Config: config}
	old := raft.Peer{ID: "n3", Incarnation: 8}
	third := raft.Change{Replace: []raft.Replacement{{Old: old, New: raft.Member{ID: "n3", Address: "h:3", Incarnation: 9}}}}
	assert.Error(t, third.ValidateFor(run), "at most two members have one id")

	second := admin.ClusterMember{ID: "n3", Incarnation: "7", Kind: "learner", Replace: true}
	first := admin.ClusterMember{ID: "n3", Incarnation: "8", Kind: "voter", Replace: true}
	j := joiner{self: self, incarnation: "9", cluster: "c"}
	change, _ := j.decide(led(second, first), time.Now())
	assert.Equal(t, &admin.Change{IfIndex: 7, Remove: []admin.Peer{{ID: "n3", Incarnation: "7"}}}, change)
	assert.NoError(t, raft.Change{Remove: []raft.Peer{{ID: "n3", Incarnation: 7}}}.ValidateFor(run))

	change, _ = j.decide(led(first), time.Now())
	assert.Equal(t, admin.Peer{ID: "n3", Incarnation: "8"}, change.Replace[0].Old)
	run.Config = raft.NewConfiguration([]raft.Member{run.Config.Members[0], run.Config.Members[1], {ID: "n3", Address: "h:3", Incarnation: 8}})
	run.Config.Level = 1
	assert.NoError(t, third.ValidateFor(run))
}

func TestJoin_TakesNobodysPlace(t *testing.T) {
	j := joiner{self: self, incarnation: "9", cluster: "c"}
	start := time.Now()
	at := func(after time.Duration, contactMS float64) *admin.Change {
		change, _ := j.decide(led(admin.ClusterMember{ID: "n3", Incarnation: "8", Kind: "voter", LastContactMS: contactMS}), start.Add(after))
		return change
	}
	assert.Nil(t, at(0, -1), "a new leader has heard nobody yet")
	assert.Nil(t, at(joinSilence-1, 60_000))
	assert.Nil(t, at(joinSilence, 10), "it is back")
	assert.Nil(t, at(time.Hour, 60_000))
	assert.Nil(t, at(time.Hour+joinSilence-1, -1))
	assert.NotNil(t, at(time.Hour+joinSilence, 60_000))
}

func TestJoin_SetsAsideOnlyWhatIsOfNoUse(t *testing.T) {
	for _, row := range []struct {
		err       error
		wasMember bool
		want      bool
	}{
		{&raft.StaleImageError{}, false, true},
		{&raft.StaleImageError{}, true, true},
		{&raft.CorruptError{}, false, true},
		{&storage.UnfinishedAsideError{}, false, true},
		{&raft.RemovedError{}, false, true},
		{&raft.RemovedError{}, true, false}, // removed while it ran
		{&raft.ContradictedError{}, false, false},
		{&raft.LaterVersionError{}, false, false},
		{&raft.IdentityError{}, false, false},
		{raft.ErrLocked, false, false},
		{errors.New("disk full"), false, false},
		{nil, false, false},
	} {
		err := row.err
		if err != nil {
			err = fmt.Errorf("the node has ended: %w", err)
		}
		assert.Equal(t, row.want, spent(err, row.wasMember), "%T", row.err)
	}
}

// The joiner reaches only a follower, and this follower may lag. The member knows that it has joined, because it becomes
// ready.
func TestJoin_WhoServesIsAMember(t *testing.T) {
	j := joiner{self: self, incarnation: "9", cluster: "c"}
	follower := led(admin.ClusterMember{ID: "n3", Incarnation: "9", Kind: "voter"})
	follower.ID = "n2"
	j.decide(follower, time.Now())
	assert.False(t, j.member)

	answers := []error{node.ErrWiped, node.ErrWiped, nil}
	assert.True(t, serves(t.Context(), func(context.Context) (err error) {
		err, answers = answers[0], answers[1:]
		return err
	}), "the store was empty initially")
	assert.Empty(t, answers)
	assert.False(t, serves(t.Context(), func(context.Context) error { return &raft.RemovedError{} }))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.False(t, serves(ended, func(context.Context) error { return node.ErrWiped }))
}

func TestJoin_SetsNothingAsideAlone(t *testing.T) {
	dir := t.TempDir()
	store, err := storage.OpenBolt(dir, storage.BoltOptions{})
	require.NoError(t, err)
	require.NoError(t, writeAddresses(dir, addresses{Raft: "h:3"}))
	leads := make(chan string, 4)
	leads <- "n1" // for the call that fails
	leads <- ""   // no leader is known
	leads <- "n2"
	leads <- "n1"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := os.Stat(filepath.Join(dir, storage.BoltFile))
		assert.NoError(t, err, "the store is still there")
		_, _ = fmt.Fprintf(w, `{"id":"n1","cluster_name":"c","index":1,"leader":%q}`, <-leads)
	}))
	defer server.Close()
	o := Options{Data: dir, Cluster: "c", Join: []string{server.URL}}
	require.ErrorIs(t, setAside(t.Context(), o, &raft.StaleImageError{}, hclog.NewNullLogger()), raft.ErrLocked)
	_, known := readAddresses(dir)
	assert.False(t, known, "after any interruption, a new store does not take the addresses of the former one")
	require.NoError(t, store.Close())
	require.NoError(t, writeAddresses(dir, addresses{Raft: "h:3"}))
	require.NoError(t, setAside(t.Context(), o, &raft.StaleImageError{}, hclog.NewNullLogger()))
	assert.Empty(t, leads)
	_, err = os.Stat(filepath.Join(dir, storage.BoltFile))
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, known = readAddresses(dir)
	assert.False(t, known, "the member that joins states its addresses again")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	server.Close()
	why := &raft.StaleImageError{}
	assert.Equal(t, error(why), setAside(ended, Options{Data: dir, Cluster: "c", Join: []string{server.URL}}, why, hclog.NewNullLogger()))
}

// Two clusters may have the same name. The leader of each cluster would let the member join.
func TestJoin_JoinsNeitherOfTwoClusters(t *testing.T) {
	serve := func(id string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(t, http.MethodGet, r.Method, "the joiner asks for no change")
			_, _ = fmt.Fprintf(w, `{"id":"n1","leader":"n1","cluster_name":"c","cluster_id":%q,"index":1,"committed":true}`, id)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	one, other := serve("1"), serve("2")
	var log bytes.Buffer
	j := newJoiner(Options{ID: "n3", Cluster: "c", Join: []string{one, other}}, 9, hclog.New(&hclog.LoggerOptions{Output: &log}))
	defer j.seen.Close()
	assert.False(t, j.step(t.Context(), time.Now()))
	assert.Contains(t, log.String(), one+" and "+other+" belong to different clusters")
}

// There are two possible reasons. Somebody has demoted the member to a learner. Or the change that added the member was given
// up, and the member was restarted meanwhile. The member cannot distinguish them. It therefore asks for nothing, and logs the
// remedy.
func TestJoin_ALearnerThatWasToVoteSaysSo(t *testing.T) {
	for _, row := range []struct {
		kind, as string
		says     bool
	}{{"learner", "", true}, {"voter", "", false}, {"learner", "learner", false}} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"id":"n1","leader":"n1","cluster_name":"c","index":7,"committed":true,
				"members":[{"id":"n3","incarnation":"0000000000000009","kind":%q}]}`, row.kind)
		}))
		var log bytes.Buffer
		o := Options{ID: "n3", Cluster: "c", As: row.as, Join: []string{server.URL}}
		j := newJoiner(o, 9, hclog.New(&hclog.LoggerOptions{Output: &log}))
		assert.True(t, j.step(t.Context(), time.Now()))
		assert.Equal(t, row.says, bytes.Contains(log.Bytes(), []byte("raftkv members add n3")), log.String())
		j.seen.Close()
		server.Close()
	}
}

// The joiner asks once a second until it succeeds, and logs each reason once.
func TestJoin_SaysTheSameOnce(t *testing.T) {
	var log bytes.Buffer
	j := joiner{log: hclog.New(&hclog.LoggerOptions{Output: &log})}
	for range 3 {
		j.say("asks", "because")
		j.say("cannot join yet", "in use")
	}
	j.say("cannot join yet", "unreachable")
	assert.Equal(t, 3, bytes.Count(log.Bytes(), []byte("\n")), log.String())
}
