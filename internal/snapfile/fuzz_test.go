package snapfile_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"runtime"
	"slices"
	"testing"

	"github.com/coxswain/raft"
)

// FuzzSnapshotFile reads arbitrary bytes as a snapshot. Reading never panics. It allocates in proportion to the file, and
// returns typed errors. Half of the inputs get correct checksums of the head and the end, so that the reader also reads the
// fields.
func FuzzSnapshotFile(f *testing.F) {
	data := payload(300)
	s := described(1, data)
	whole := image(f, s, data)
	f.Add(whole, false)
	f.Add(whole, true)
	f.Add(whole[:40], true)
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, file []byte, sealed bool) {
		file = slices.Clone(file)
		if end := len(file) - 4; sealed && end > 30 {
			binary.LittleEndian.PutUint32(file[26:], crc32.Checksum(file[:26], castagnoli))
			length := int(min(binary.LittleEndian.Uint32(file[end-4:]), uint32(end-4)))
			own := crc32.Checksum(s.File[:], castagnoli)
			binary.LittleEndian.PutUint32(file[end:], crc32.Update(own, castagnoli, file[end-4-length:end]))
		}
		d := damaged(t, s.File, file)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := content(d, s)
		runtime.ReadMemStats(&after)
		// If JSON has many empty members, it grows most when it is decoded.
		if grown := after.TotalAlloc - before.TotalAlloc; grown > uint64(1<<20+200*len(file)) {
			t.Fatalf("%d bytes were allocated for a file of %d", grown, len(file))
		}
		var corrupt *raft.CorruptError
		var later *raft.LaterVersionError
		if err != nil && !errors.As(err, &corrupt) && !errors.As(err, &later) {
			t.Fatal(err)
		}
		if errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	})
}
