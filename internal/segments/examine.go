package segments

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sort"

	"github.com/coxswain/raft"
)

// Held is one segment, and which entries of the log it holds.
type Held struct {
	Listed
	Path        string
	Limit       int64      // end of its batches
	First, Last raft.Index // 0: none
}

// Held returns the listed segments that Recover has read, in order.
func (l *Log) Held() (all []Held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := &l.index
	for _, s := range l.segments {
		h := Held{Listed: s.Listed, Path: s.path, Limit: s.limit}
		k := sort.Search(len(x.marks), func(k int) bool { return x.marks[k].segment.Number >= s.Number })
		if k < len(x.marks) && x.marks[k].segment == s && s.last > x.start.Index {
			h.First, h.Last = max(x.marks[k].first, x.start.Index+1), s.last
		}
		all = append(all, h)
	}
	return all
}

// Unlisted returns the names of the files that Recover has found beside the segments: those that are to be used next, and those
// that Begin removes.
func (l *Log) Unlisted() (names []string) {
	if l.recovery != nil {
		for _, path := range l.recovery.unused {
			names = append(names, filepath.Base(path))
		}
	}
	return names
}

// Damages reads the listed segments once more after Recover has returned an error. It returns the damaged places that a segment
// shows by itself, in order, but no more than most. Recover also finds damage that only the whole log shows.
func (l *Log) Damages(ctx context.Context, most int) (places []error, err error) {
	for k, listed := range l.catalog.Listed {
		s := &segment{Listed: listed, path: l.path(listed.Number)}
		if err := l.open(s, false); err != nil {
			places = append(places, err)
			continue
		}
		found, err := l.damagesOf(ctx, s, k == len(l.catalog.Listed)-1, most-len(places))
		if err = errors.Join(err, s.file.Close()); err != nil {
			return places, err
		}
		if places = append(places, found...); len(places) >= most {
			return places[:most], nil
		}
	}
	return places, nil
}

func (l *Log) damagesOf(ctx context.Context, s *segment, last bool, most int) (places []error, err error) {
	size, err := s.file.Size()
	if err != nil {
		return nil, err
	}
	limit := s.End
	if last {
		limit = s.Bytes
	}
	scan := newScanner(s, min(limit, size), l.sizes.BufferBytes, nil)
	synced, before := l.catalog.Synced, int64(0)
	for offset := int64(headBytes); offset < scan.limit && len(places) < most; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		h, reason, err := scan.batch(offset)
		if err != nil {
			return append(places, err), nil // the disk cannot read it
		}
		if reason == nil && h.synced < before {
			reason = errEarlier
		}
		if reason == nil {
			before, synced, offset = h.synced, max(synced, h.synced), h.end()
			continue
		}
		rest, err := scan.following(offset + alignment)
		if err != nil {
			return append(places, err), nil
		}
		if synced = max(synced, rest.synced); last && synced <= offset {
			break // an interrupted write may have left it
		}
		places = append(places, damaged(s.path, offset, reason))
		offset = rest.next
	}
	if size < s.Bytes {
		places = append(places, damaged(s.path, size, fmt.Errorf("the file is cut short, it had %d bytes", s.Bytes)))
	}
	return places, nil
}
