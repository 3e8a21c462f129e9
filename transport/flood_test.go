package transport_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/leaks"
)

// floodRole is the environment variable that makes the test program a flood of callers. Its value is "address connections
// opening".
const floodRole = "RAFT_TRANSPORT_FLOOD"

func TestMain(m *testing.M) {
	if role := os.Getenv(floodRole); role != "" {
		var address, opening string
		var connections int
		if _, err := fmt.Sscanf(role, "%s %d %q", &address, &connections, &opening); err != nil {
			panic(err)
		}
		for range connections {
			go callAgainAndAgain(address, []byte(opening))
		}
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent process
		return
	}
	os.Exit(leaks.Main(m.Run))
}

// callAgainAndAgain sends the opening and nothing more, and connects again when it is rejected.
func callAgainAndAgain(address string, opening []byte) {
	for {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			continue
		}
		_, _ = conn.Write(opening)
		_, _ = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}
}

// flood starts callers in another process, which ends with the test.
func flood(t *testing.T, address string, connections int, opening string) {
	callers := exec.Command(os.Args[0])
	callers.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %q", floodRole, address, connections, opening))
	hold, err := callers.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, callers.Start())
	t.Cleanup(func() { _ = hold.Close(); _ = callers.Wait() })
}

// 3,000 callers send nothing and call again as soon as they are closed. Meanwhile a member restarts repeatedly.
func TestAccept_AFloodOfSilentCallersKeepsNoMemberOut(t *testing.T) {
	ca := newAuthority(t)
	a, _ := start(t, "a", ca.member(t, "test", "a"))
	for name, opening := range map[string]string{"silent": "", "silent after a byte": "\x16"} {
		t.Run(name, func(t *testing.T) {
			leaks.Check(t)
			flood(t, a.Addr().String(), 3000, opening)
			require.Eventually(t, func() bool { return a.Stats().Accepted > 3000 }, time.Minute, time.Millisecond)
			var longest time.Duration
			var failed uint64
			for range 5 {
				began := time.Now()
				b, r := start(t, "b", ca.member(t, "test", "b"))
				b.Connect(at("a", a.Addr().String()))
				r.AwaitUp(t, "a")
				longest, failed = max(longest, time.Since(began)), failed+b.Stats().DialFailed
				require.NoError(t, b.Close())
			}
			t.Logf("a member that restarts is connected within %v, %d dials failed; %d callers were accepted, %d closed for others",
				longest.Round(time.Millisecond), failed, a.Stats().Accepted, a.Stats().Crowded)
			assert.LessOrEqual(t, failed, uint64(5), "on average one a start: the machine is busy with the flood")
		})
	}
}
