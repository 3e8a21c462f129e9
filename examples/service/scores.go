package main

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"strconv"

	"github.com/coxswain/raft"
)

// version is that of this program. A release that adds a field to command raises it.
const version = 2

// scores is the state machine: the points of each player. Every member applies the same commands in the same order.
type scores map[string]int

// command is what members propose and store, as JSON.
type command struct {
	Player string
	Points int  `json:",omitempty"` // to add
	Remove bool `json:",omitempty"` // the player; from version 2 on
}

// Apply answers each command with the player's total. It looks at nothing but the state and the entry: no clock, no random number.
func (s scores) Apply(batch []raft.Entry, results [][]byte) error {
	for i, entry := range batch {
		var c command
		if json.Unmarshal(entry.Data, &c) != nil {
			continue // an error would end every member, now and after each restart
		}
		s[c.Player] += c.Points
		if c.Remove {
			delete(s, c.Player)
		}
		results[i] = strconv.AppendInt(nil, int64(s[c.Player]), 10)
	}
	return nil
}

// Snapshot freezes the state. WriteTo writes the frozen state while later commands are applied, and Restore reads it.
func (s scores) Snapshot() (raft.FSMSnapshot, error) { return frozen(maps.Clone(s)), nil }

func (s scores) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	clear(s)
	return json.Unmarshal(text, &s)
}

type frozen scores

func (f frozen) WriteTo(ctx context.Context, w io.Writer) error {
	text, err := json.Marshal(f)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

func (f frozen) Close() error { return nil }
