package segments_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/segments"
)

// edit makes one change to the bytes of a segment. Eight bytes of a fuzz input determine the change.
func edit(b []byte, change []byte) {
	at := int(binary.LittleEndian.Uint16(change[2:])) % len(b)
	from := int(binary.LittleEndian.Uint16(change[4:])) % len(b)
	switch change[1] % 4 {
	case 0:
		b[at] ^= change[6]
	case 1:
		copy(b[at:], change[6:8])
	case 2: // a block is written at the wrong place
		copy(b[at:], b[from:min(from+512, len(b))])
	case 3:
		clear(b[at:min(at+512, len(b))])
	}
}

// The segments may have any content. A start returns either a log, or an error that names the file. The log is a prefix of
// the written log, accepts writes, and is the same after the next start.
func FuzzRecover(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 3, 0, 0, 1, 0})
	f.Add([]byte{2, 2, 0, 4, 0, 2, 0, 0, 1, 3, 0, 6, 0, 0, 0, 0})
	f.Add([]byte{2, 1, 8, 2, 0, 0, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, input []byte) {
		s := newScript(newTree().FS())
		require.NoError(t, s.run([]act{starts(), appends(0, 1, 12), appends(0, 1, 12), appends(2, 2, 6), appends(0, 2, 2), appends(0, 3, 3)}))
		require.NoError(t, s.log.Close())
		for ; len(input) >= 8; input = input[8:] {
			k := int(input[0]) % len(s.catalog.Listed)
			change(t, s.disk, s.path(k), func(b []byte) []byte { edit(b, input); return b })
		}
		all := s.acked
		err := starts()(s)
		if err != nil {
			var corrupt *raft.CorruptError
			var later *raft.LaterVersionError
			require.True(t, errors.As(err, &corrupt) || errors.As(err, &later), "%v", err)
			return
		}
		last := s.log.Last().Index
		require.LessOrEqual(t, last, all.last().Index)
		s.ended(model{all.start, all.entries[:last-all.start.Index]})
		if s.acked.differs(s.log) != nil {
			// The lost batch may be the one that truncated the log.
			s.ended(model{entries: append(all.entries[:22:22], entries(id(22, 1), 1, 2)...)})
			require.NoError(t, s.acked.differs(s.log))
		}
		require.NoError(t, s.writeAndRestart())
	})
}

// No list of segments makes a start panic.
func FuzzCatalog(f *testing.F) {
	s := newScript(newTree().FS())
	require.NoError(f, s.run([]act{starts(), appends(0, 1, 40), closes()}))
	f.Add(s.catalog.Encode())
	f.Fuzz(func(t *testing.T, input []byte) {
		c, err := segments.DecodeCatalog(input)
		if err != nil {
			return
		}
		require.Equal(t, input, c.Encode())
		other := s.on(s.disk)
		other.catalog = c
		if starts()(other) == nil {
			require.NoError(t, other.log.Close())
		}
	})
}
