package pipeline

import (
	"testing"
	"time"

	expect "github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
)

func TestPace_LetsBytesThroughAtItsRate(t *testing.T) {
	type take struct {
		at    raft.Time // in ms
		bytes int
		wait  time.Duration // in ms
	}
	for _, row := range []struct {
		rule        string
		rate, burst int // 1,000 bytes per second are one per ms
		takes       []take
	}{
		{"a full bucket is taken at once, and the next byte waits", 1000, 100,
			[]take{{5, 60, 0}, {5, 40, 0}, {5, 1, 1}, {6, 1, 0}, {6, 1, 1}}},
		{"who waits takes nothing meanwhile", 1000, 100, []take{{5, 100, 0}, {5, 80, 80}, {5, 20, 20}, {25, 20, 0}, {25, 80, 80}}},
		{"an idle bucket fills up", 1000, 100, []take{{5, 100, 0}, {55, 50, 0}, {55, 1, 1}, {155, 100, 0}}},
		{"and holds no more than its size, however long it is idle", 1000, 100, []take{{5, 100, 0}, {90_000, 100, 0}, {90_000, 1, 1}}},
		{"a piece larger than the bucket takes a full one, and is paid for afterwards", 1000, 100,
			[]take{{5, 300, 0}, {5, 1, 201}, {205, 1, 1}, {206, 1, 0}}},
		{"it waits until the bucket is full", 1000, 100, []take{{5, 10, 0}, {5, 300, 10}, {15, 300, 0}, {15, 300, 300}}},
		{"without room for a burst, pieces leave one after the other", 1000, 0, []take{{5, 10, 0}, {5, 10, 10}, {15, 10, 0}, {15, 10, 10}}},
		{"a rate of 0 is no limit", 0, 0, []take{{5, 1 << 30, 0}, {5, 1 << 30, 0}}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			const ms = raft.Time(time.Millisecond)
			p := NewPace(int64(row.rate), row.burst)
			for _, take := range row.takes {
				expect.Equal(t, take.wait*time.Millisecond, p.Next(take.at*ms, take.bytes), "%+v", take)
			}
		})
	}
}

// In no interval do more bytes leave than the rate allows, plus one burst and one piece.
func TestPace_NeverExceedsItsRate(t *testing.T) {
	const rate, burst, piece = 1 << 20, 64 << 10, 300_000
	p := NewPace(rate, burst)
	now, took := raft.Time(1), 0
	for i := range 2000 {
		bytes := 1 + (i*7919)%piece
		if wait := p.Next(now, bytes); wait > 0 {
			now += raft.Time(wait)
			expect.Zero(t, p.Next(now, bytes), "the wait is long enough")
		}
		took += bytes
		allowed := float64(rate)*time.Duration(now).Seconds() + burst + piece
		if float64(took) > allowed {
			t.Fatalf("%d bytes in %v", took, time.Duration(now))
		}
	}
	expect.Greater(t, float64(took), 0.95*float64(rate)*time.Duration(now).Seconds(), "the rate is used")
}
