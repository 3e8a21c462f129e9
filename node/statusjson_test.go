package node

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/golden"
)

// fullStatus returns a Status with a value in every field.
func fullStatus() Status {
	n1 := raft.Member{ID: "n1", Address: "n1:5001", Meta: "http://n1:4001", Kind: raft.Learner, Priority: 5, Incarnation: 0xa1, Next: raft.NextVoter, AppVersion: 2}
	return Status{
		ID: "n2", Incarnation: 0xb2, StartCount: 3, ClusterName: "shop", Cluster: raft.ClusterID{1, 2, 3},
		Lease: 70 * time.Millisecond, LeaseDuration: 100 * time.Millisecond,
		Leadership: raft.Leadership{Term: 4, Leader: "n1", LeaderIncarnation: 0xa1, Role: raft.PreCandidate, ByTransfer: true}, LeaderMember: &n1,
		Members: []MemberStatus{{Member: n1, State: "replicate", Match: 7, Lag: 2, Inflight: 1,
			Standing: "joins", Dialed: "n1:5002", Replace: true, Protocol: 3, Release: "v0.2.0", Announced: 3,
			CatchUp:     &CatchUp{Round: 2, Target: 9, Since: time.Second, Ready: true, Done: 41, Total: 1 << 20, Rate: 12.5, Left: time.Minute, Idle: time.Millisecond},
			LastContact: 150 * time.Millisecond, Connected: true, ConnectionErr: "refused earlier", Problem: "none", Verdict: "no room",
			Differs:   []SettingDifference{{Setting: "election timeout", Here: "1s", There: "2s", Effect: "set the same"}},
			RoundTrip: 1500 * time.Microsecond, RefusedFor: 2 * time.Second, Backoff: 20 * time.Second}},
		Departing:   []DepartingMember{{ID: "n9", Incarnation: 0xc9, Removal: 4, Left: time.Second, Connected: true, Dialed: "n9:5001"}},
		ConfigIndex: 5, ConfigCommitted: 4, Phase: "joint: n1 n2 n3 → n1 n2 n4", Level: 1, AppVersionMin: 2,
		Change: &ChangeStatus{Stage: "catches up", Since: time.Second, Waiting: []raft.NodeID{"n1"}},
		Base:   raft.EntryID{Term: 1, Index: 2}, Snapshot: SnapshotStatus{
			Last: raft.EntryID{Term: 2, Index: 4}, Bytes: 4096, At: time.Unix(1700000000, 0), Took: time.Second,
			Taking:    &Transfer{ID: raft.EntryID{Term: 3, Index: 6}, Peer: "n2", Done: 100, Total: -1, Since: time.Second, Left: time.Second},
			Receiving: &Transfer{ID: raft.EntryID{Term: 2, Index: 4}, Peer: "n1", Done: 1, Total: 2, Since: time.Second, Left: time.Second},
			Sending:   &Transfer{ID: raft.EntryID{Term: 2, Index: 4}, Peer: "n3", Done: 1, Total: 2, Since: time.Second, Left: time.Second},
			Restoring: &Transfer{ID: raft.EntryID{Term: 2, Index: 4}, Peer: "n2", Done: 100, Total: 4096, Since: time.Minute, Left: time.Second},
			Err:       ErrWithinFSM, SendErr: raft.ErrOverloaded, ReceiveErr: raft.ErrClosed, Unsupported: "no",
		},
		Last: raft.EntryID{Term: 3, Index: 9}, LogBytes: 512, Persisted: 8, Commit: 7, Applied: 6, Applying: 2 * time.Second, Age: 80 * time.Millisecond,
		Bootstrapped: true, Missing: []string{"n3 has not answered"}, Wiped: true, SlowElection: "slow", MajorityLost: "gone", LeaderReason: "n1 leads",
		DiskStalled: true, FSMHangs: true, NoRoom: "make room", SmallDisk: "small", Tolerance: "none", Pending: 5, PendingBytes: 500, Err: raft.ErrClosed,
		InOffice: time.Minute, Cause: raft.CauseNews, Successors: []raft.NodeID{"n1", "n3"}, Backoff: 10 * time.Second, Caretaker: true,
		Findings: []Finding{{"no room", "n1", "make room"}},
		Certificate: &CertificateStatus{NotAfter: time.Unix(1700000000, 0).UTC(), DaysLeft: 9, Refused: true, Problem: "renew it",
			Issuer: "CN=jobs", Authorities: []string{"CN=jobs"}},
	}
}

// countFields counts the exported fields, including those of embedded structs, and fails for a field without a
// value.
func countFields(t *testing.T, v reflect.Value) (n int) {
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Anonymous {
			n += countFields(t, v.Field(i))
		} else if f.IsExported() {
			expect.False(t, v.Field(i).IsZero(), "the example lacks %s", f.Name)
			n++
		}
	}
	return n
}

func keysOf(t *testing.T, v any) int {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	var keys map[string]any
	require.NoError(t, json.Unmarshal(data, &keys))
	return len(keys)
}

// Scripts read this JSON. So if the golden file changes, a contract changes.
func TestStatus_InJSONIsStableText(t *testing.T) {
	s := fullStatus()
	data, err := json.Marshal(s)
	require.NoError(t, err)
	var got bytes.Buffer
	require.NoError(t, json.Indent(&got, append(data, '\n'), "", "  "))
	golden.Check(t, "testdata/status.json", got.String(), "make fix, and say it in CHANGELOG.md")

	everyFieldHasAKey(t, reflect.ValueOf(s))
}

// everyFieldHasAKey checks that the JSON of a struct has a key for each exported field. It checks the structs within it, too.
func everyFieldHasAKey(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			everyFieldHasAKey(t, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			everyFieldHasAKey(t, v.Index(i))
		}
	case reflect.Struct:
		if v.Type().PkgPath() != reflect.TypeFor[Status]().PkgPath() {
			return
		}
		more := 0
		if _, text := v.Interface().(CatchUp); text {
			more = 1 // String
		}
		expect.Equal(t, countFields(t, v)+more, keysOf(t, v.Interface()), "%v: every field has a key", v.Type())
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !f.Anonymous {
				everyFieldHasAKey(t, v.Field(i))
			}
		}
	}
}

// The configuration has the form of the status. Enumerations are names, and incarnations look the same as elsewhere.
func TestMembers_InJSONAreStableText(t *testing.T) {
	n1 := fullStatus().Members[0].Member
	m := Members{Configuration: raft.NewConfiguration([]raft.Member{n1}), Index: 5, Committed: true}
	m.Outgoing, m.Removed = []raft.Peer{n1.Peer()}, []raft.Removal{{Peer: raft.Peer{ID: "n9", Incarnation: 0xc9}, Index: 4}}
	m.Patience, m.Level, m.AppVersionMin, m.Sessions, m.LeaseDuration = time.Minute, 1, 2, true, 100*time.Millisecond
	data, err := json.Marshal(m)
	require.NoError(t, err)
	expect.JSONEq(t, `{
		"members": [{"id": "n1", "address": "n1:5001", "meta": "http://n1:4001", "kind": "learner", "priority": 5, "incarnation": "00000000000000a1", "next": "voter",
			"app_version": 2}],
		"outgoing": [{"id": "n1", "incarnation": "00000000000000a1"}],
		"removed": [{"id": "n9", "incarnation": "00000000000000c9", "removal": 4}],
		"patience": "1m0s", "level": 1, "app_version_min": 2, "sessions": true, "lease_duration": "100ms", "config_index": 5, "committed": true}`, string(data))
	everyFieldHasAKey(t, reflect.ValueOf(m))
	data, err = json.Marshal(Members{})
	require.NoError(t, err)
	expect.NotContains(t, string(data), "null")
}

func TestStatus_InJSONSaysNeverAndLeavesNothingNull(t *testing.T) {
	data, err := json.Marshal(Status{Members: []MemberStatus{{LastContact: -1}}})
	require.NoError(t, err)
	expect.Contains(t, string(data), `"last_contact":"never"`)
	expect.Contains(t, string(data), `"missing":[]`)
	expect.Contains(t, string(data), `"cluster":""`)
	expect.Contains(t, string(data), `"leader_member":null`)
}
