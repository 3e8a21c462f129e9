package cli_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coxswain/raft/admin"
	"github.com/stretchr/testify/assert"
)

// says starts a server that serves the statuses in order, and repeats the last one. It also serves an answer to POST
// /snapshot.
func says(t *testing.T, taken string, statuses ...string) (url string) {
	t.Helper()
	next := make(chan string, len(statuses))
	for _, s := range statuses {
		next <- s
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == admin.SnapshotPath {
			assert.Equal(t, http.MethodPost, r.Method)
			_, _ = w.Write([]byte(taken))
			return
		}
		now := <-next
		if len(next) == 0 {
			next <- now
		}
		_, _ = w.Write([]byte(now))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

const (
	none    = `{"id":"n1","snapshot":{"last":10}}`
	half    = `{"id":"n1","snapshot":{"last":10,"taking":{"last":20,"done":1048576,"total":4194304}}}`
	whole   = `{"id":"n1","snapshot":{"last":20,"bytes":4194304}}`
	failed  = `{"id":"n1","snapshot":{"last":10,"error":"raft: no room"}}`
	waiting = `{"id":"n1","taken":false,"last":20}`
)

func TestSnapshot_WaitsForALargeOne(t *testing.T) {
	for _, row := range []struct {
		rule     string
		taken    string
		statuses []string
		code     int
		want     string
	}{
		{"taken at once", `{"id":"n1","taken":true,"last":20,"bytes":512}`, []string{none}, 0, "n1: the newest snapshot covers entry 20: 512 B\n"},
		{"taken after a while", waiting, []string{none, half, whole}, 0, "n1: the newest snapshot covers entry 20: 4.0 MiB\n"},
		{"not taken", waiting, []string{none, half, failed}, 1, "snapshot_failed: raft: no room (look at the log of n1"},
		{"not taken in time", waiting, []string{none, half}, 1, "n1 is still taking it, 1.0 MiB of 4.0 MiB, 25 %: raftkv status shows"},
	} {
		code, out, errs := run(t, "", "snapshot", "--timeout", "2s", "--server", says(t, row.taken, row.statuses...))
		assert.Equal(t, row.code, code, "%s: %s", row.rule, errs)
		assert.Contains(t, out+errs, row.want, row.rule)
	}
}

func TestSnapshot_SaysThatTheMemberGoesOnIfItDoesNotAnswerInTime(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == admin.SnapshotPath {
			<-r.Context().Done()
			return
		}
		_, _ = w.Write([]byte(none))
	}))
	defer server.Close()
	code, _, errs := run(t, "", "snapshot", "--timeout", "100ms", "--server", server.URL)
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "no answer within --timeout; the member may be taking it")
}

func TestSnapshot_AsksTheMemberThatIsNamed(t *testing.T) {
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	one := says(t, `{"id":"n1","taken":true,"last":1}`, `{"id":"n1","members":[{"id":"n3","url":"`+down.URL+`"}]}`)
	other := says(t, `{"id":"n2","taken":true,"last":2}`, `{"id":"n2"}`)
	args := []string{"snapshot", "--server", down.URL, "--server", one, "--server", other}
	_, out, _ := run(t, "", args...)
	assert.Equal(t, "n1: the newest snapshot covers entry 1: 0 B\n", out, "the first one that answers")
	_, out, _ = run(t, "", append(args, "n2")...)
	assert.Equal(t, "n2: the newest snapshot covers entry 2: 0 B\n", out)
	code, _, errs := run(t, "", append(args, "n3")...)
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "could not be reached")
	code, _, errs = run(t, "", append(args, "n4")...)
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, `no member is called "n4": there are n1, n2, n3`)
}

func TestSnapshot_FindsTheMemberThroughOneServer(t *testing.T) {
	other := says(t, `{"id":"n2","taken":true,"last":2}`, `{"id":"n2"}`)
	one := says(t, "", `{"id":"n1","members":[{"id":"n1","url":"http://here"},{"id":"n2","url":"`+other+`"},{"id":"n3"}]}`)
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	for _, row := range []struct {
		id, server string
		code       int
		want       string
	}{
		{"n2", one, 0, "n2: the newest snapshot covers entry 2: 0 B\n"},
		{"n3", one, 1, "no server that answers knows the URL of n3: name it with --server"},
		{"n4", one, 1, `no member is called "n4": there are n1, n2, n3`},
		{"n2", down.URL, 1, "no server answers: unreachable"},
	} {
		code, out, errs := run(t, "", "snapshot", row.id, "--server", row.server)
		assert.Equal(t, row.code, code, row.want)
		assert.Contains(t, out+errs, row.want)
	}
}

func TestStatus_ShowsTheLogAndItsSnapshots(t *testing.T) {
	leader := says(t, "", `{"id":"n1","role":"leader","base":1000,"log_bytes":4096,"snapshot":{"last":1234,"bytes":8388608,"age_ms":12000,
		"taking":{"last":1300,"done":2097152,"total":-1},"sending":{"last":1234,"peer":"n2","done":4194304,"total":8388608}}}`)
	follower := says(t, "", `{"id":"n2","role":"follower","leader":"n1","log_bytes":1048576,"snapshot":{"age_ms":-1,"error":"raft: no room","receive_error":"damaged",
		"receiving":{"last":1234,"peer":"n1","done":4194304,"total":8388608}}}`)
	older := says(t, "", `{"id":"n3","role":"follower","leader":"n1"}`)
	code, out, errs := run(t, "", "status", "--server", leader, "--server", follower, "--server", older)
	assert.Equal(t, 0, code, errs)
	assert.Contains(t, out, "n1  log of 4.0 KiB behind entry 1000  snapshot of entry 1234, 8.0 MiB, 12s ago; takes a snapshot, 2.0 MiB; "+
		"sends a snapshot to n2, 4.0 MiB of 8.0 MiB, 50 %\n")
	assert.Contains(t, out, "n2  log of 1.0 MiB behind entry 0     no snapshot; receives a snapshot from n1, 4.0 MiB of 8.0 MiB, 50 %; "+
		"the last one was not taken: raft: no room; the last one was not received: damaged\n")
	assert.Equal(t, 1, strings.Count(out, "n3"), "earlier releases say nothing about snapshots")

	alone := says(t, "", `{"id":"n1","role":"leader","snapshot":{"unsupported":"the log is never compacted"}}`)
	_, out, _ = run(t, "", "status", "--server", alone)
	assert.Contains(t, out, "n1: the log is never compacted\n")
	assert.NotContains(t, out, "no snapshot")
}

func TestServe_SaysWhatIsWrongWithThePolicyOfSnapshots(t *testing.T) {
	for flag, want := range map[string]string{
		"--snapshot-entries 0":             "--snapshot-entries 0: use 1 or more; a large number means never",
		"--snapshot-entries -3":            "--snapshot-entries: -3; it takes 1 to",
		"--snapshot-entries many":          `--snapshot-entries "many": it takes a whole number`,
		"--snapshot-rate 0":                "--snapshot-rate 0: use 64KiB or more",
		"--snapshot-rate 63KiB":            "--snapshot-rate: 64512; it takes 65536 to",
		"--snapshot-log-bytes much":        `--snapshot-log-bytes "much": it takes a number of bytes, as in 4096`,
		"--snapshot-tail-bytes 1MB":        `--snapshot-tail-bytes "1MB": it takes a number of bytes`,
		"--snapshot-hold-bytes 0":          "--snapshot-hold-bytes 0: use 1 or more",
		"--snapshot-reserve-bytes -1":      `--snapshot-reserve-bytes "-1": it takes`,
		"--snapshot-reserve-bytes 9000GiB": "--snapshot-reserve-bytes: 9663676416000; it takes 0 to",
		"--snapshot-stall-max 0s":          "--snapshot-stall-max 0s: use 1s to 1h",
		"--snapshot-stall-max 1ms":         "--snapshot-stall-max: 1ms; it takes 1 s to 1 h",
	} {
		code, _, errs := run(t, "", strings.Fields("serve --id n1 --data d --raft-addr :1 --http-addr :2 "+flag)...)
		assert.Equal(t, 2, code, flag)
		assert.Contains(t, errs, want)
		assert.NotContains(t, errs, "Config.", flag)
	}
	for args, want := range map[string]string{
		"snapshot n1 n2":        "write raftkv snapshot [NODE]",
		"snapshot --timeout 0s": "--timeout 0s",
	} {
		code, _, errs := run(t, "", strings.Fields(args)...)
		assert.Equal(t, 2, code, args)
		assert.Contains(t, errs, want)
	}
}
