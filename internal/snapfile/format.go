// Package snapfile keeps snapshots in files. Each file is written once and then only read. format.go describes the content of
// a file, and dir.go the files of a directory. writer.go writes a file, and reader.go reads one.
//
// A file gets its name only when it is complete and durable. Its name and its description must agree with the id in its head.
// The checksum of each block covers the id and the number of the block, so a reader notices a block of another file or place.
package snapfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/coxswain/raft"
)

// A file of format 1 is, little endian:
//
//	head:   "coxsnap\n" | version uint8 (1) | group uint8 (0) | SnapshotID | CRC-32C of all before
//	blocks: 64 KiB of the snapshot, the last block the rest | CRC-32C of SnapshotID, number of the block uint64, bytes
//	end:    description of the snapshot | its length uint32 | CRC-32C of SnapshotID, description and length
//
// The head has the same form in every format, so that this release can distinguish a later format from damage. The
// description is at the end because the writer knows the size and the checksum of the snapshot only there.
const (
	magic     = "coxsnap\n"
	version   = 1
	versionAt = len(magic)
	idAt      = versionAt + 2 // after the group
	sumBytes  = 4
	headBytes = idAt + len(raft.SnapshotID{}) + sumBytes
	endBytes  = 4 + sumBytes // after the description
)

// Sizes are the sizes of the parts in which a file is written.
type Sizes struct {
	// BlockBytes is the size of a block. Each block has one checksum. BlockBytes belongs to the format: a reader must use the
	// same value as the writer of the file.
	BlockBytes int
	// SyncBytes is how much a Writer writes between two syncs. A single sync of a large file takes long, and the syncs of the
	// log would have to wait for it.
	SyncBytes int
}

// format1 has the sizes of every file outside of tests.
var format1 = Sizes{BlockBytes: 64 << 10, SyncBytes: 1 << 20}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errCutShort = errors.New("cut short")
	errChecksum = errors.New("checksum does not match")
)

func head(file raft.SnapshotID) []byte {
	b := append([]byte(magic), version, 0)
	b = append(b, file[:]...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// checkHead returns an error unless b is the head of the given file.
func checkHead(b []byte, file raft.SnapshotID) error {
	sum := len(b) - sumBytes
	switch {
	case string(b[:len(magic)]) != magic:
		return errors.New("it does not begin like a snapshot")
	case binary.LittleEndian.Uint32(b[sum:]) != crc32.Checksum(b[:sum], castagnoli):
		return errChecksum
	case b[versionAt] > version:
		return &raft.LaterVersionError{Record: "the snapshot", Found: uint64(b[versionAt]), Known: version}
	case b[versionAt] == 0:
		return errors.New("version 0")
	case raft.SnapshotID(b[idAt:sum]) != file:
		return fmt.Errorf("it is snapshot %v under the name of another snapshot", raft.SnapshotID(b[idAt:sum]))
	}
	return nil
}

func blockSum(file raft.SnapshotID, number int64, block []byte) uint32 {
	return crc32.Update(crc32.Checksum(binary.LittleEndian.AppendUint64(file[:], uint64(number)), castagnoli), castagnoli, block)
}

// end returns the encoded end of the file of snapshot s.
func end(s raft.Snapshot) []byte {
	b := s.Encode()
	b = binary.LittleEndian.AppendUint32(b, uint32(len(b)))
	return binary.LittleEndian.AppendUint32(b, endSum(s.File, b))
}

func endSum(file raft.SnapshotID, b []byte) uint32 {
	return crc32.Update(crc32.Checksum(file[:], castagnoli), castagnoli, b)
}

// blocksBytes returns how many bytes the blocks of a snapshot take in the file. size is the size of the snapshot.
func (s Sizes) blocksBytes(size int64) int64 {
	return size + (size+int64(s.BlockBytes)-1)/int64(s.BlockBytes)*sumBytes
}

// readEnd reads and checks the description at the end of a file. size is the size of the file. readEnd allocates no more than
// that, even if the length in the file is damaged.
func (s Sizes) readEnd(r io.ReaderAt, file raft.SnapshotID, size int64) (raft.Snapshot, error) {
	tail := make([]byte, endBytes)
	if size < int64(headBytes+endBytes) {
		return raft.Snapshot{}, errCutShort
	}
	if err := readFull(r, tail, size-endBytes); err != nil {
		return raft.Snapshot{}, err
	}
	length := int64(binary.LittleEndian.Uint32(tail))
	if length > raft.SnapshotRecordBytesMax || length > size-int64(headBytes+endBytes) {
		return raft.Snapshot{}, fmt.Errorf("a description of %d bytes in a file of %d; the limit is %d", length, size, raft.SnapshotRecordBytesMax)
	}
	all := make([]byte, length+endBytes)
	if err := readFull(r, all, size-endBytes-length); err != nil {
		return raft.Snapshot{}, err
	}
	if binary.LittleEndian.Uint32(all[length+4:]) != endSum(file, all[:length+4]) {
		return raft.Snapshot{}, errChecksum
	}
	found, err := raft.DecodeSnapshot(all[:length])
	if err != nil {
		return found, err
	}
	between := size - int64(headBytes+endBytes) - length
	if found.File != file || found.Held || found.Size > between || s.blocksBytes(found.Size) != between {
		return found, fmt.Errorf("it describes snapshot %v of %d bytes, and %d bytes precede it", found.File, found.Size, between)
	}
	return found, nil
}

// readFull fills b from that offset.
func readFull(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return errCutShort
	}
	return &readError{err}
}

// readError is an error of the file system. It does not mean that the bytes are damaged.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

// damaged returns a *raft.CorruptError for bytes of the file that differ from the bytes that were written there. If a later
// release wrote the bytes, damaged returns the version error in reason instead. If the bytes could not be read, damaged
// returns the error of the file system.
func damaged(path, where string, reason error) error {
	var later *raft.LaterVersionError
	var unread *readError
	switch {
	case errors.As(reason, &later):
		named := *later
		named.File = path
		return &named
	case errors.As(reason, &unread):
		return unread.err
	}
	return &raft.CorruptError{File: path, Where: where, Reason: reason}
}
