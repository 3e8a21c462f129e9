package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coxswain/raft/admin"
)

// accept asks for the change once. It returns as soon as the change is done, refused, or accepted and under way.
func (c *changer) accept(ctx context.Context, timeout time.Duration) (string, error) {
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var err error
	if c.first, err = c.Look(ctx); err != nil {
		return "", &exitError{exitUnanswered, err}
	}
	type outcome struct {
		reply admin.Changed
		err   error
	}
	posted := make(chan outcome, 1)
	go func() {
		reply, err := c.post(ctx)
		posted <- outcome{reply, err}
	}()
	looks := time.NewTicker(lookPause)
	defer looks.Stop()
	for {
		select {
		case o := <-posted:
			switch {
			case o.err == nil && o.reply.Done:
				return c.readBack(ctx, o.reply.Members)
			case o.err == nil && c.begun(o.reply.Members):
				return c.accepted(o.reply.Members), nil
			case o.err == nil:
				return "", c.outOfTime(ctx, nil)
			}
			return c.refused(ctx, o.err)
		case <-looks.C:
			if now, err := c.Look(ctx); err == nil && c.begun(now) {
				return c.accepted(now), nil
			}
		}
	}
}

// accepted records that the change continues by itself, and returns the sentence that says so.
func (c *changer) accepted(m admin.Members) string {
	c.continues = true
	return fmt.Sprintf("accepted: configuration %d; it continues by itself: raftkv members shows its progress", m.Index)
}

// begun reports whether the running change gives another role to a member that this change names.
func (c *changer) begun(now admin.Members) bool {
	if now.Change == nil || now.Index <= c.first.Index {
		return false
	}
	return slices.ContainsFunc(idsOf(c.change), func(id string) bool {
		return !slices.EqualFunc(c.first.Of(id), now.Of(id), func(a, b admin.ClusterMember) bool {
			return a.Incarnation == b.Incarnation && a.Standing == b.Standing && a.Address == b.Address && a.URL == b.URL && priority(a) == priority(b)
		})
	})
}

// idsOf returns the members that a change names.
func idsOf(c admin.Change) (ids []string) {
	for _, m := range c.Add {
		ids = append(ids, m.ID)
	}
	for _, p := range slices.Concat(c.Promote, c.Demote, c.Remove) {
		ids = append(ids, p.ID)
	}
	for _, r := range c.Replace {
		ids = append(ids, r.Old.ID, r.New.ID)
	}
	for _, u := range c.Update {
		ids = append(ids, u.ID)
	}
	return ids
}
