package node

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	expect "github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
)

// A problem is logged once it lasts, and once it has ended. One that comes and goes is logged once a minute.
func TestProblems_AreLoggedWhenTheyBeginAndEnd(t *testing.T) {
	var log bytes.Buffer
	n := &Node{logger: &guardedLogger{logger: hclog.New(&hclog.LoggerOptions{Output: &log, DisableTime: true})}}
	p := problems{n, map[problem]*spell{}}
	now := time.Unix(1000, 0)
	look := func(found ...Finding) string {
		log.Reset()
		now = now.Add(lookEvery)
		p.look(now, found)
		return strings.TrimSpace(log.String())
	}
	full := Finding{"no room", "n3", "its disk is full"}
	expect.Empty(t, look(full), "one look may be an accident")
	expect.Equal(t, `[WARN]  a problem has begun: verdict="no room" member=n3 says="its disk is full" see="docs/runbook.md#no-room" left_out=0`, look(full))
	expect.Empty(t, look(full))
	expect.Empty(t, look())
	expect.Equal(t, `[INFO]  a problem has ended: verdict="no room" member=n3 lasted=4s`, look())
	for range 5 {
		for range 3 {
			expect.Empty(t, look(full))
		}
		for range 3 {
			expect.Empty(t, look())
		}
	}
	for range 40 {
		look()
	}
	look(full)
	expect.Contains(t, look(full), "a problem has begun")
	expect.Contains(t, look(full, Finding{VerdictNoQuorum, "", "1 of 3"})+look(full, Finding{VerdictNoQuorum, "", "1 of 3"}), "[ERROR]", "an outage is an error")

	p.seen = map[problem]*spell{}
	look(full)
	look(full)
	look()
	look()
	for range 60 { // it is back within the minute, and stays
		if line := look(full); line != "" {
			expect.Contains(t, line, "left_out=0")
			return
		}
	}
	t.Error("it was never logged again")
}

func TestClockWatch_SeesAJumpOfTheWallClock(t *testing.T) {
	var c clockWatch
	now := time.Unix(1000, 0)
	at := func(mono, wall time.Duration) time.Duration {
		c.look(now, raft.Now{Mono: raft.Time(mono), Wall: int64(wall)})
		jump, _ := c.last(now)
		return jump
	}
	expect.Zero(t, at(time.Second, time.Hour))
	expect.Zero(t, at(2*time.Second, time.Hour+time.Second))
	expect.Zero(t, at(60*time.Second, time.Hour+59*time.Second+500*time.Millisecond), "a process that was paused, and a clock that is slewed")
	expect.Equal(t, -time.Minute, at(61*time.Second, time.Hour+500*time.Millisecond))
	expect.Equal(t, 2*time.Minute, at(62*time.Second, time.Hour+121*time.Second+500*time.Millisecond))
	s := Status{ID: "n1"}
	s.clockJump, s.clockJumpAt = c.last(now)
	expect.Equal(t, []Finding{{"clock jump", "n1", "its wall clock jumped forward by 2m0s at 1970-01-01T00:16:40Z"}}, findsClockJump(&s))
	jump, _ := c.last(now.Add(clockJumpFresh + 1))
	expect.Zero(t, jump, "long ago")
}

func TestSlowDisk_IsTheMedianOfTheLatestWrites(t *testing.T) {
	var d slowDisk
	now := time.Unix(1000, 0)
	for range writesKept - 1 {
		d.note(now, time.Hour)
	}
	expect.Zero(t, d.median(now, time.Second), "too few")
	d.note(now, time.Hour)
	expect.Equal(t, time.Hour, d.median(now, time.Second))
	expect.Zero(t, d.median(now.Add(writesFresh+1), time.Second), "long ago")
	for range writesKept/2 + 1 {
		d.note(now, time.Millisecond)
	}
	expect.Zero(t, d.median(now, time.Second), "most are fast")
}

// The verdicts beside those of members.
func TestFindings_BesideTheMembers(t *testing.T) {
	find := func(change func(s *Status)) (names []string) {
		s := seenFrom(raft.Leader, 3, "n2", "n3")
		s.patience, s.Bootstrapped, s.Term, s.ID = time.Second, true, 3, "n1"
		s.Leadership.Leader = "n1"
		change(&s)
		s.judge()
		for _, f := range findings(&s) {
			names = append(names, f.Verdict+" "+string(f.Member))
		}
		return names
	}
	expect.Empty(t, find(func(*Status) {}))
	for want, change := range map[string]func(s *Status){
		"majority lost ":     func(s *Status) { s.MajorityLost = "2 of 3" },
		"not begun ":         func(s *Status) { s.Bootstrapped, s.LeaderReason = false, "n3 is missing" },
		"no leader ":         func(s *Status) { s.Leader, s.LeaderReason = "", "an election follows" },
		"timeout too short ": func(s *Status) { s.SlowElection = "it takes long" },
		"settings differ n2": func(s *Status) { s.Members[1].Differs = []SettingDifference{{Setting: "election timeout"}} },
		"version skew n2":    func(s *Status) { s.Members[1].Differs = []SettingDifference{{Setting: protocolSetting}} },
		"disk slow n1":       func(s *Status) { s.slowWrite = time.Second },
		"clock jump n1":      func(s *Status) { s.clockJump = time.Hour },
		"small disk n1":      func(s *Status) { s.SmallDisk = "it is small" },
		"snapshot fails n1":  func(s *Status) { s.Snapshot.Err = raft.ErrOverloaded },
		"removed n1":         func(s *Status) { s.Err, s.Members = &raft.RemovedError{}, s.Members[1:] },
	} {
		expect.Contains(t, find(change), want)
	}
	expect.Equal(t, []string{"not connected n2", "not connected n3", "no quorum "}, find(func(s *Status) {
		s.Members[1].Connected, s.Members[2].Connected, s.Tolerance = false, false, "it does not work"
	}))
}
