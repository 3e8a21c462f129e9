package backup

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// sample is the description of a backup whose state is that of index 5 and term 3.
func sample() Head {
	m := raft.Member{ID: "n1", Address: "a:1", Incarnation: 7}
	return Head{
		Name: "orders", Cluster: raft.ClusterID{1, 2}, Member: m, Term: 4, AppVersion: 2, At: time.Unix(12, 34),
		Base: raft.Base{
			ID: raft.EntryID{Term: 3, Index: 5}, Time: 9, Cluster: raft.ClusterID{1, 2}, Bootstrapper: m.Peer(), ConfigIndex: 1,
			Config: raft.NewConfiguration([]raft.Member{m}),
		},
	}
}

func entry(term raft.Term, index raft.Index) raft.Entry {
	return raft.Entry{Term: term, Index: index, Kind: raft.EntryCommand, Time: 10, Data: []byte("command")}
}

func write(t *testing.T, h Head, state []byte, entries ...raft.Entry) []byte {
	var to bytes.Buffer
	w, err := NewWriter(&to, h)
	require.NoError(t, err)
	_, err = w.Write(state)
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, w.Entry(e))
	}
	require.NoError(t, w.Finish())
	return to.Bytes()
}

// all reads a backup to its end.
func all(from io.Reader) (h Head, state []byte, entries []raft.Entry, err error) {
	r, err := NewReader(from)
	if err != nil {
		return h, nil, nil, err
	}
	if state, err = io.ReadAll(r); err != nil {
		return r.Head(), nil, nil, err
	}
	for {
		e, err := r.Entry()
		if err == io.EOF {
			return r.Head(), state, entries, nil
		}
		if err != nil {
			return r.Head(), nil, nil, err
		}
		entries = append(entries, e)
	}
}

func state(bytes int) []byte {
	b := make([]byte, bytes)
	for i := range b {
		b[i] = byte(i*i>>8 + i>>16) // each frame has others
	}
	return b
}

func TestBackup_IsReadAsItWasWritten(t *testing.T) {
	for _, size := range []int{0, 1, stateBytes, stateBytes + 1, 3 * stateBytes} {
		written := write(t, sample(), state(size), entry(3, 6), entry(4, 7))
		h, got, entries, err := all(iotest.OneByteReader(bytes.NewReader(written)))
		require.NoError(t, err)
		assert.Equal(t, sample(), h)
		assert.Equal(t, state(size), got)
		require.Len(t, entries, 2)
		assert.Equal(t, entry(4, 7).Record(), entries[1].Record())
	}
	h := sample()
	bootstrap := entry(1, 1)
	bootstrap.Kind, bootstrap.Data = raft.EntryBootstrap, raft.Bootstrap{Cluster: h.Cluster, Bootstrapper: h.Base.Config.Members[0].Peer(), Configuration: h.Base.Config}.Encode()
	h.Base = raft.Base{}
	_, got, entries, err := all(bytes.NewReader(write(t, h, nil, bootstrap)))
	require.NoError(t, err)
	assert.Empty(t, got)
	assert.Len(t, entries, 1)
}

// A backup that is cut anywhere, or has a byte changed, is refused.
func TestBackup_EveryDamageIsNoticed(t *testing.T) {
	whole := write(t, sample(), state(3*stateBytes), entry(3, 6), entry(4, 7))
	refused := func(b []byte) {
		t.Helper()
		_, _, _, err := all(bytes.NewReader(b))
		var damaged *DamagedError
		var later *raft.LaterVersionError
		require.True(t, errors.As(err, &damaged) || errors.As(err, &later), "%v", err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range len(whole) {
		if i > 600 && i < len(whole)-400 && rng.IntN(1000) > 0 {
			continue
		}
		refused(whole[:i])
		b := bytes.Clone(whole)
		b[i] ^= 1 << rng.IntN(8)
		refused(b)
	}
	refused(append(bytes.Clone(whole), 0))
	block := frameBytes + stateBytes + sumBytes
	first := bytes.Index(whole, frame(kindState, state(stateBytes)))
	refused(append(bytes.Clone(whole[:first]), whole[first+block:]...))                                                        // left out
	refused(append(append(bytes.Clone(whole[:first+block]), whole[first:first+block]...), whole[first+block:]...))             // repeated
	refused(slices.Concat(whole[:first], whole[first+block:first+2*block], whole[first:first+block], whole[first+2*block:]))   // moved
	refused(append(bytes.Clone(whole[:first]), write(t, Head{Name: "other", Cluster: raft.ClusterID{9}}, nil)[headBytes:]...)) // another's end
}

// What a sound stream may not say.
func TestBackup_NonsenseIsRefused(t *testing.T) {
	noState := sample()
	noState.Base = raft.Base{}
	for why, b := range map[string][]byte{
		"entry 7@3 follows entry 6@4":   write(t, sample(), nil, entry(4, 6), entry(3, 7)),
		"entry 7@3 follows entry 5@3":   write(t, sample(), nil, entry(3, 7)),
		"entry 6@5 is of a later term":  write(t, sample(), nil, entry(5, 6)),
		"its description does not name": write(t, noState, []byte("x")),
		"does not name its cluster":     write(t, Head{Name: "orders"}, nil),
		"its term is 2":                 write(t, func() Head { h := sample(); h.Term = 2; return h }(), nil),
		"does not begin like a backup":  []byte("coxsnap\n\x01 and so on"),
		"version 0":                     []byte(magic + "\x00 and so on"),
	} {
		_, _, _, err := all(bytes.NewReader(b))
		require.ErrorContains(t, err, why)
	}
	_, _, _, err := all(bytes.NewReader([]byte(magic + "\x02 and so on")))
	var later *raft.LaterVersionError
	require.ErrorAs(t, err, &later)
}

// An error of the source is not taken for damage.
func TestBackup_AnErrorOfTheSourceIsNoDamage(t *testing.T) {
	whole, broken := write(t, sample(), state(10)), errors.New("the network is down")
	for i := range whole {
		_, _, _, err := all(io.MultiReader(bytes.NewReader(whole[:i]), iotest.ErrReader(broken)))
		require.ErrorIs(t, err, broken)
		var damaged *DamagedError
		require.False(t, errors.As(err, &damaged))
	}
}

// A Writer whose destination fails says so, and writes nothing any more.
func TestWriter_KeepsItsError(t *testing.T) {
	broken := errors.New("no space")
	w, err := NewWriter(brokenAfter{new(int), broken}, sample())
	require.NoError(t, err)
	_, err = w.Write(state(2 * stateBytes))
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, w.Entry(entry(3, 6)), broken)
	require.ErrorIs(t, w.Finish(), broken)
	assert.Equal(t, 5, *w.to.(brokenAfter).calls)
}

// brokenAfter fails with the fifth write.
type brokenAfter struct {
	calls *int
	err   error
}

func (b brokenAfter) Write(p []byte) (int, error) {
	if *b.calls++; *b.calls == 5 {
		return 0, b.err
	}
	return len(p), nil
}

func FuzzReader(f *testing.F) {
	var t testing.T
	f.Add(write(&t, sample(), state(10), entry(3, 6)))
	f.Add([]byte(magic + "\x01\x02\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, _, _, err := all(bytes.NewReader(b)); err == nil {
			assert.NotEmpty(t, b)
		}
	})
}
