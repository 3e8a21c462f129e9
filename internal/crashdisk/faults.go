package crashdisk

import (
	"errors"
	"math/rand/v2"
	"time"
)

// ErrPowerOff is returned by every call of a Life that is over, and by the calls beyond the limit of StopAfter.
var ErrPowerOff = errors.New("crashdisk: the power is off")

// FailSyncs lets the given number of further syncs succeed. Every later sync fails with EIO, until the next cut or the next
// call of FailSyncs. A failed sync writes nothing. A negative number repairs the disk.
func (t *Tree) FailSyncs(after int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.syncsLeft = after
}

// ForgetFailed makes every failed sync of a file mark the file's bytes as written, as Linux does. Processes still read these
// bytes. No later sync writes them, and the next cut loses them.
func (t *Tree) ForgetFailed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgets = true
}

// Fill fills the disk if full is true, and empties it again if full is false. Every write to a full disk fails with ENOSPC.
// Even a write over existing data fails, as on a file system that never overwrites in place.
func (t *Tree) Fill(full bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.full = full
}

// FailOpens makes the processes run out of file descriptors. The given number of further attempts to open a file or a
// directory succeed. Every later attempt fails with EMFILE, until the next cut, kill or call of FailOpens. Syncing a
// directory opens it, too. Open files stay open. With a negative number, opening always succeeds.
func (t *Tree) FailOpens(after int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opensLeft = after
}

// Quota limits the bytes of all files that have a name, in whole blocks of 512 bytes. A call that would exceed it fails with
// ENOSPC and writes nothing. 0 means no limit.
func (t *Tree) Quota(bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.quota = bytes
}

// Used returns the bytes that count against a quota.
func (t *Tree) Used() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used
}

// Lie makes every later sync report success and write nothing. No other call ends that.
func (t *Tree) Lie() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lies = true
}

// StallSyncs makes every sync that begins from now on wait for the given time first. The stall lasts until ResumeSyncs or the
// next cut.
func (t *Tree) StallSyncs(each time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.syncDelay = each
}

// ResumeSyncs ends a stall: waiting syncs continue at once, and later ones do not wait.
func (t *Tree) ResumeSyncs() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resumeSyncs()
}

func (t *Tree) resumeSyncs() {
	t.syncDelay = 0
	close(t.resumed)
	t.resumed = make(chan struct{})
}

// StopAfter carries out the given number of further calls. Every later call returns ErrPowerOff and changes nothing, until
// the next cut. Closing a file does not count as a call. With a negative number, all calls are carried out.
func (t *Tree) StopAfter(calls int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopAt = -1
	if calls >= 0 {
		t.stopAt = t.calls + calls
	}
}

// Kill ends every Life, as if all processes were killed while the power stays on. A kill loses nothing, but the next cut may
// still lose what is not synced.
func (t *Tree) Kill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.life++
	t.stopAt, t.opensLeft, t.open = -1, -1, 0
	t.resumeSyncs()
}

// FailAt makes the k-th call from now fail with the given error and change nothing. If k is 1, the next call fails.
func (t *Tree) FailAt(k int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failAt, t.failWith = t.calls+k, err
}

// OpenFiles returns how many files the processes have open. It counts the files that were opened through FS.
func (t *Tree) OpenFiles() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open
}

// Calls returns how many calls were made, including those that failed.
func (t *Tree) Calls() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls
}

func keepAll() bool { return true }

// KeepNothing loses everything that was not synced.
func KeepNothing() bool { return false }

// KeepHalf returns a function for Cut that keeps about half. The seed decides which half.
func KeepHalf(seed uint64) func() bool {
	random := rand.New(rand.NewPCG(seed, seed))
	return func() bool { return random.IntN(2) == 0 }
}

// EveryImage calls look for every state in which a power cut may leave this disk. In each state, a different part of the
// unsynced changes has reached the disk. image is a disk in that state. EveryImage makes at most imagesMax calls of look, and
// returns their number. This disk does not change.
func EveryImage(t *Tree, imagesMax int, look func(image *Tree)) int {
	var answers []bool // answers of keep for the present image
	for made := 1; ; made++ {
		asked := 0
		image := t.Clone()
		image.Cut(func() bool {
			if asked == len(answers) {
				answers = append(answers, false)
			}
			asked++
			return answers[asked-1]
		})
		look(image)
		for len(answers) > 0 && answers[len(answers)-1] {
			answers = answers[:len(answers)-1]
		}
		if len(answers) == 0 || made == imagesMax {
			return made
		}
		answers[len(answers)-1] = true
	}
}
