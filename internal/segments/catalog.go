package segments

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/coxswain/raft"
)

// Catalog lists the segments of the log. The owner of the log keeps the catalog durable, and replaces it in one step.
type Catalog struct {
	// Epoch counts the resets. Batches of an earlier epoch are not in the log.
	Epoch uint64
	// Synced is an offset in the last segment. When the catalog was written, the segment was durable at least up to that
	// offset.
	Synced int64
	// Commit is a committed index. The log is durable at least up to that index.
	Commit raft.Index
	Listed []Listed // in the order in which they were written
}

// Listed is one segment of a catalog.
type Listed struct {
	Number uint64 // names the file; higher than the numbers before it
	Salt   uint64 // random number of this use of the file
	Bytes  int64  // size of the file
	End    int64  // end of the last batch; 0: this is the last segment, which is still written to
}

const catalogNumbers = 3 // before the segments

// Encode returns the epoch, synced, commit, and the numbers of each segment in order. All of them are uint64, little endian.
func (c Catalog) Encode() []byte {
	b := make([]byte, 0, 8*(catalogNumbers+4*len(c.Listed)))
	for _, n := range []uint64{c.Epoch, uint64(c.Synced), uint64(c.Commit)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	for _, s := range c.Listed {
		for _, n := range []uint64{s.Number, s.Salt, uint64(s.Bytes), uint64(s.End)} {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
	}
	return b
}

// DecodeCatalog decodes what Encode returned.
func DecodeCatalog(b []byte) (c Catalog, err error) {
	if len(b) < 8*catalogNumbers || (len(b)-8*catalogNumbers)%32 != 0 {
		return c, fmt.Errorf("a list of segments of %d bytes", len(b))
	}
	number := func(k int) uint64 { return binary.LittleEndian.Uint64(b[8*k:]) }
	c = Catalog{Epoch: number(0), Synced: int64(number(1)), Commit: raft.Index(number(2))}
	for k := catalogNumbers; 8*k < len(b); k += 4 {
		c.Listed = append(c.Listed, Listed{number(k), number(k + 1), int64(number(k + 2)), int64(number(k + 3))})
	}
	return c, c.check()
}

func (c Catalog) check() error {
	if c.Synced < 0 {
		return errors.New("a list of segments with a negative offset")
	}
	before := uint64(0)
	for k, s := range c.Listed {
		isLast := k == len(c.Listed)-1
		if s.Number <= before || s.Bytes < headBytes || s.End < 0 || s.End > s.Bytes || (s.End == 0) != isLast {
			return fmt.Errorf("a list of segments with %+v in place %d of %d", s, k+1, len(c.Listed))
		}
		if isLast && c.Synced > s.Bytes {
			return fmt.Errorf("a list of segments that calls offset %d synced, and ends with %+v", c.Synced, s)
		}
		before = s.Number
	}
	return nil
}
