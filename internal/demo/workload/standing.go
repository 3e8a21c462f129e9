package workload

import (
	"context"
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
)

// standing holds the values that the key of a checked round may have at the end. Revisions order all changes of a key. The
// last known change is therefore enough, together with the writes of unknown outcome. Those writes may take effect later.
type standing struct {
	key      string
	value    string   // last known value; "" means absent
	revision uint64   // revision of the last known change
	maybe    []string // values of writes of unknown outcome; "" means absent
}

// standing returns the values that the round's key may have at the end.
func (r *round) standing() standing {
	s := standing{key: r.key}
	for _, o := range r.ops {
		in, out := o.Input.(input), o.Output.(output)
		value := in.value
		switch in.kind {
		case opGet:
			value = out.value
		case opDelete:
			value = ""
		}
		switch {
		case out.unknown:
			s.maybe = append(s.maybe, value)
		case !out.failed && out.revision > s.revision:
			s.value, s.revision = value, out.revision
		}
	}
	return s
}

// judge returns an error if the key must not hold the found value.
func (s standing) judge(found output) error {
	switch {
	case found.value == "" && s.value == "":
		return nil
	case found.revision == s.revision && found.value == s.value:
		return nil
	case (found.value == "" || found.revision > s.revision) && slices.Contains(s.maybe, found.value):
		return nil
	}
	return fmt.Errorf("%s: %q of revision %d was acknowledged or read, but at the end %q of revision %d is there",
		s.key, s.value, s.revision, found.value, found.revision)
}

// scan reads every kept key, and counts a violation for each key with a wrong value. It fails if the context ends before scan
// could read every key.
func (w *Workload) scan(ctx context.Context) error {
	for _, s := range w.kept {
		found, err := w.look(ctx, s.key)
		if err != nil {
			return fmt.Errorf("the final read of %s: %w", s.key, err)
		}
		w.mu.Lock()
		w.verdict.Scanned++
		w.mu.Unlock()
		if err := s.judge(found); err != nil {
			w.count(violated, fmt.Errorf("%w: %s", err, w.illustrate(s.key, found)), noTime)
		}
	}
	return nil
}

// look reads a key linearizably from any member that answers.
func (w *Workload) look(ctx context.Context, key string) (output, error) {
	return client.Try(ctx, w.clients(), func(c *client.Client) (output, error) {
		value, err := c.Get(ctx, key, api.Linearizable)
		if api.CodeOf(err) == admin.NotFound {
			return output{}, nil
		}
		return output{value: string(value.Data), revision: value.Revision}, err
	})
}

// illustrate saves a picture of the history of a key with its final read. It returns a text that names the file of the
// picture, or the reason why there is none.
func (w *Workload) illustrate(key string, found output) string {
	switch {
	case w.journal == nil:
		return "its history was not saved"
	case w.Verdict().Lost >= violationsMax:
		return "pictures of other keys were saved"
	}
	r, err := w.journal.read(key)
	if err != nil {
		return err.Error()
	}
	now := w.rounds.now()
	r.ops = append(r.ops, porcupine.Operation{
		ClientId: len(w.chains), Input: input{kind: opGet}, Call: now, Output: found, Return: now + 1,
	})
	_, info := porcupine.CheckOperationsVerbose(registerModel, r.ops, checkTimeout)
	return r.document(w.cfg.Dir, info)
}

// Keys returns all kept keys, see Config.Keep. Call it after Verify.
func (w *Workload) Keys() (keys []string) {
	for _, s := range w.kept {
		keys = append(keys, s.key)
	}
	return keys
}
