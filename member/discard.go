package member

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/joining"
	"github.com/coxswain/raft/storage"
)

// discardPause is the time between two rounds of questions about a store that may be set aside.
const discardPause = time.Second

// discard sets the store aside if the error with which it was refused, or the removal of this member, allows it. It returns nil if
// the member is to start again with an empty store, and otherwise the error to return from Start.
func (m *Member) discard(ctx context.Context, why error) error {
	if m.cfg.Storage != nil || !m.cfg.SetAside && m.cfg.Rejoin == 0 {
		return why
	}
	if unfinished := (*storage.UnfinishedAsideError)(nil); errors.As(why, &unfinished) { // it was decided before
		return m.moveAside(why)
	}
	ask, err := joining.Refused(why, m.cfg.SetAside, m.cfg.Rejoin)
	if err != nil {
		return err
	}
	if !ask {
		return m.moveAside(why)
	}
	store := joining.Store{ID: m.cfg.ID, ClusterName: m.cfg.Cluster}
	if damaged := (*raft.CorruptError)(nil); errors.As(why, &damaged) && damaged.Cluster != (raft.ClusterID{}) {
		store.Cluster = damaged.Cluster
	} else if stored, err := m.peek(ctx); err == nil {
		store.Cluster = stored.Cluster()
	}
	return m.untilConfirmed(ctx, why, store)
}

// untilConfirmed sets the store aside once a leader has confirmed that this member is one of its cluster. It waits for that until
// ctx ends.
func (m *Member) untilConfirmed(ctx context.Context, why error, store joining.Store) error {
	for said := ""; ; {
		err := m.confirmed(ctx, why, store)
		if err == nil {
			return m.moveAside(why)
		}
		var kept *joining.KeptError
		if errors.As(err, &kept) && kept.Final {
			return err
		}
		if reason := err.Error(); reason != said {
			said = reason
			m.cfg.Logger.Warn("the store cannot be used, and is set aside once a leader confirms this member", "reason", reason)
		}
		pause := time.NewTimer(discardPause)
		select {
		case <-ctx.Done():
			pause.Stop()
			return err
		case <-pause.C:
		}
	}
}

// confirmed asks the seeds, and the leaders that they name. It returns nil if an answer allows the store to be set aside.
func (m *Member) confirmed(ctx context.Context, why error, store joining.Store) error {
	nobody := raft.WhoReply{ClusterName: store.ClusterName, Cluster: store.Cluster}
	result := joining.MayDiscard(why, store, nobody)
	if kept := (*joining.KeptError)(nil); errors.As(result, &kept) && kept.Final {
		return result
	}
	asking, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	q := raft.Who{ClusterName: m.cfg.Cluster, From: raft.Peer{ID: m.cfg.ID}, Address: m.cfg.advertised(), Confirm: true}
	answers := make(chan confirmation)
	var asked []string
	ask := func(address string) {
		if address == "" || slices.Contains(asked, address) || len(asked) >= 2*joining.SeedsMax {
			return
		}
		asked = append(asked, address)
		tasks.Go(func() {
			r, err := m.seeker.carrier.Who(asking, address, q)
			select {
			case answers <- confirmation{r, err}:
			case <-asking.Done():
			}
		})
	}
	seeds, err := m.cfg.Seeds.resolve(ctx)
	result = errors.Join(why, err)
	for _, address := range seeds {
		ask(address)
	}
	for done := 0; done < len(asked); done++ { // the leaders that the seeds name are asked, too
		select {
		case <-ctx.Done():
			return result
		case one := <-answers:
			if result = errors.Join(why, one.err); one.err != nil {
				continue
			}
			if result = joining.MayDiscard(why, store, one.reply); result == nil {
				return nil
			}
			ask(joining.LeaderAddress(&one.reply))
		}
	}
	return result
}

// confirmation is the outcome of one question with Who.Confirm.
type confirmation struct {
	reply raft.WhoReply
	err   error
}

// peek loads the store and closes it.
func (m *Member) peek(ctx context.Context) (raft.Stored, error) {
	store, err := m.open()
	if err != nil {
		return raft.Stored{}, err
	}
	stored, err := store.Load(ctx, raft.Identity{Cluster: m.cfg.Cluster, ID: m.cfg.ID, Fresh: raft.Incarnation(rand.Uint64() | 1), Nonce: rand.Uint64() | 1})
	return stored, errors.Join(err, store.Close())
}

// moveAside sets the store aside.
func (m *Member) moveAside(why error) error {
	aside, err := storage.SetAside(m.cfg.Dir)
	if err != nil {
		return errors.Join(why, &raft.ConfigError{Field: "Dir", Err: err})
	}
	_ = os.Remove(filepath.Join(m.cfg.Dir, endedFile)) // it is of another incarnation from now on
	m.cfg.Logger.Warn("the store was set aside, and this member joins with an empty one", "reason", why, "kept", aside)
	return nil
}

// endedFile is the name of a file in Config.Dir. It says why a member with this store has ended, if the store itself need not show
// that: others have told the member of its removal, or damage was found only after the start.
const endedFile = "ended.json"

// ending is the content of endedFile.
type ending struct {
	Incarnation raft.Incarnation `json:"incarnation"` // of the store
	Removed     raft.Index       `json:"removed,omitempty"`
	Damage      *foundDamage     `json:"damage,omitempty"`
}

// foundDamage has the texts of a *raft.CorruptError.
type foundDamage struct {
	File   string `json:"file"`
	Where  string `json:"where"`
	Reason string `json:"reason"`
}

// noteEnding keeps what has ended this member for a start with Rejoin or SetAside.
func (m *Member) noteEnding() {
	var removed *raft.RemovedError
	var corrupt *raft.CorruptError
	ended := ending{Incarnation: m.node.Status().Incarnation}
	switch err := m.Err(); {
	case m.cfg.Dir == "":
		return
	case errors.As(err, &removed):
		ended.Removed = removed.Index
	case errors.As(err, &corrupt):
		ended.Damage = &foundDamage{corrupt.File, corrupt.Where, corrupt.Reason.Error()}
	default:
		return
	}
	text, err := json.Marshal(ended)
	if err == nil {
		err = files.WriteAnew(filepath.Join(m.cfg.Dir, endedFile), text)
	}
	if err != nil {
		m.cfg.Logger.Warn("a start with Rejoin or SetAside may not know why this member has ended", "error", err)
	}
}

// endedBefore returns why the member with this store has ended, if Rejoin or SetAside is for that.
func (m *Member) endedBefore(ctx context.Context) (why error) {
	file := filepath.Join(m.cfg.Dir, endedFile)
	if !m.cfg.SetAside && m.cfg.Rejoin == 0 || files.CheckRegular(file) != nil { // reading a named pipe would wait for a writer
		return nil
	}
	var was ending
	text, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(text, &was) != nil {
		return nil
	}
	switch {
	case was.Removed != 0 && was.Removed == m.cfg.Rejoin:
		why = &raft.RemovedError{Index: was.Removed}
	case was.Damage != nil && m.cfg.SetAside:
		why = &raft.CorruptError{File: was.Damage.File, Where: was.Damage.Where, Reason: errors.New(was.Damage.Reason)}
	default:
		return nil
	}
	if stored, err := m.peek(ctx); err != nil || stored.Incarnation != was.Incarnation {
		return nil // that store is not there any more, or the start will say what is wrong with it
	}
	return why
}
