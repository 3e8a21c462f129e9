package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"strconv"

	"github.com/coxswain/raft"
)

// version is that of this program. A release that adds a command raises it.
const version = 2

// scores is the state machine: the points of each player.
type scores map[string]int

// command is what members store, as JSON.
type command struct {
	Player string
	Points int
	Remove bool
}

// Apply carries out commands, and answers each with the player's total.
func (s scores) Apply(batch []raft.Entry, results [][]byte) error {
	for i, entry := range batch {
		var c command
		if json.Unmarshal(entry.Data, &c) != nil {
			continue // an error would end every member
		}
		s[c.Player] += c.Points
		if c.Remove {
			delete(s, c.Player)
		}
		results[i] = strconv.AppendInt(nil, int64(s[c.Player]), 10)
	}
	return nil
}

// Snapshot freezes the state, frozen.WriteTo writes it while later commands are applied, and Restore reads it.
func (s scores) Snapshot() (raft.FSMSnapshot, error) { return frozen(maps.Clone(s)), nil }
func (s scores) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error {
	text, err := io.ReadAll(r)
	clear(s)
	return errors.Join(err, json.Unmarshal(text, &s))
}

type frozen scores

func (f frozen) WriteTo(ctx context.Context, w io.Writer) error {
	return errors.Join(ctx.Err(), json.NewEncoder(w).Encode(f))
}
func (f frozen) Close() error { return nil }
