package backup

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"

	"github.com/coxswain/raft"
)

// Writer writes a backup: the state with Write, then the entries, then Finish. After an error, it only returns that error. One
// goroutine uses it.
type Writer struct {
	to    io.Writer
	sum   uint32
	state []byte // that was written, and is not in a frame yet
	end   End
	err   error
}

// NewWriter begins a backup.
func NewWriter(to io.Writer, h Head) (*Writer, error) {
	w := &Writer{to: to, state: make([]byte, 0, stateBytes)}
	data, err := h.encode()
	if err != nil {
		return nil, err
	}
	w.put(append([]byte(magic), version))
	w.frame(kindHead, data)
	return w, w.err
}

// Write adds bytes of the state. No entry may have been added.
func (w *Writer) Write(p []byte) (n int, err error) {
	if w.end.Entries > 0 && w.err == nil {
		w.err = errors.New("backup: the state comes before the entries")
	}
	for n < len(p) && w.err == nil {
		took := min(len(p)-n, cap(w.state)-len(w.state))
		w.state = append(w.state, p[n:n+took]...)
		n += took
		if len(w.state) == cap(w.state) {
			w.flush()
		}
	}
	return n, w.err
}

// Entry adds the entry that follows.
func (w *Writer) Entry(e raft.Entry) error {
	w.flush()
	w.end.Entries++
	w.frame(kindEntry, e.Record())
	return w.err
}

// Finish ends the backup. Only then it can be restored.
func (w *Writer) Finish() error {
	w.flush()
	data, err := json.Marshal(w.end)
	if err != nil {
		return err
	}
	w.frame(kindEnd, data)
	return w.err
}

// flush puts the state that was written into a frame.
func (w *Writer) flush() {
	if len(w.state) == 0 {
		return
	}
	w.end.Bytes += int64(len(w.state))
	w.frame(kindState, w.state)
	w.state = w.state[:0]
}

func (w *Writer) frame(k kind, payload []byte) {
	w.put(frame(k, payload))
	w.put(payload)
	sum := w.sum
	w.put(binary.LittleEndian.AppendUint32(nil, sum))
	w.sum = sum
}

func (w *Writer) put(b []byte) {
	if w.err == nil {
		w.sum = crc32.Update(w.sum, castagnoli, b)
		_, w.err = w.to.Write(b)
	}
}
