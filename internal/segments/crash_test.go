package segments_test

import (
	"errors"
	"math"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/crashdisk"
)

// imagesMax is the maximum number of states that the test tries after one power cut. For up to twelve unsynced changes, the
// test tries all states.
const imagesMax = 1 << 12

// The test cuts the power at each call. The disk may keep any part of the unsynced data. The next start still finds
// everything that was acknowledged, and the log accepts writes. The test also cuts the power at each call of that start.
func TestCrash_EveryImage(t *testing.T) {
	images, stops := 0, 0
	for ended := false; !ended; stops++ {
		tree := newTree()
		s := newScript(tree.FS())
		tree.StopAfter(stops)
		ended = s.run(history) == nil
		images += crashdisk.EveryImage(tree, imagesMax, func(image *crashdisk.Tree) {
			if images++; images%16 == 0 {
				interruptStart(t, s, image.Clone())
			}
			after := s.on(image.FS())
			require.NoError(t, after.resume(), "stop %d", stops)
			require.NoError(t, after.writeAndRestart(), "stop %d", stops)
		})
	}
	t.Logf("%d stops, %d images", stops, images)
	require.Greater(t, images, 1000)
}

// interruptStart cuts the power at each call of a start.
func interruptStart(t *testing.T, s *script, image *crashdisk.Tree) {
	for calls, ended := 0, false; !ended; calls++ {
		again := image.Clone()
		again.StopAfter(calls)
		after := s.on(again.FS())
		ended = after.resume() == nil
		again.Cut(crashdisk.KeepHalf(uint64(calls)))
		after = after.on(again.FS())
		require.NoError(t, after.resume())
	}
}

// Each call fails once, in turn. After the failure the log writes nothing more. The next start finds everything that was
// acknowledged.
func TestFailures_EveryCall(t *testing.T) {
	for _, failure := range []error{syscall.EIO, syscall.ENOSPC} {
		for k, failed := 1, true; failed; k++ {
			tree := newTree()
			s := newScript(tree.FS())
			tree.FailAt(k, failure)
			err := s.run(history)
			if failed = err != nil; failed {
				require.ErrorIs(t, err, failure, "call %d", k)
			}
			if s.log != nil && s.log.Failed() != nil {
				require.Error(t, s.log.Append(s.log.Last(), nil, 0), "call %d", k)
			}
			tree.FailAt(1<<30, nil)
			require.NoError(t, errors.Join(s.resume(), s.writeAndRestart()), "call %d", k)
			require.NoError(t, s.log.Close())
			tree.Cut(crashdisk.KeepNothing)
			after := s.on(tree.FS())
			require.NoError(t, after.resume(), "call %d, and a power cut", k)
		}
	}
}

// Each sync fails in turn, and the disk still marks the bytes as written. So the next start reads the bytes, and no later
// sync writes them. Everything that this start returns must survive a power cut.
func TestFailures_EverySyncForgets(t *testing.T) {
	for k, failed := 0, true; failed; k++ {
		tree := newTree()
		tree.ForgetFailed()
		s := newScript(tree.FS())
		tree.FailSyncs(k)
		failed = s.run(history) != nil
		tree.FailSyncs(-1)
		require.NoError(t, s.resume(), "sync %d", k+1)
		tree.Cut(crashdisk.KeepNothing)
		after := s.on(tree.FS())
		require.NoError(t, after.resume(), "sync %d, and a power cut", k+1)
		require.NoError(t, after.writeAndRestart(), "sync %d", k+1)
	}
}

// For a moment the process or the machine may have no file descriptor left. The log then prepares a segment later.
// Acknowledged entries survive a power cut at any call meanwhile.
func TestFailures_APassingLackOfDescriptors(t *testing.T) {
	lacks, images := 0, 0
	for k, ended := 1, false; !ended; k++ {
		for stop := k; stop < k+8; stop++ {
			tree := newTree()
			s := newScript(tree.FS())
			s.waits = true
			tree.FailAt(k, syscall.EMFILE)
			tree.StopAfter(stop)
			err := s.run(history)
			if ended = err == nil; s.lacked == 0 {
				break // the call needs no descriptor
			}
			lacks++
			images += crashdisk.EveryImage(tree, imagesMax, func(image *crashdisk.Tree) {
				after := s.on(image.FS())
				require.NoError(t, after.resume(), "call %d, stop %d", k, stop)
				require.NoError(t, after.run([]act{appends(0, math.MaxInt32, 60)}), "call %d, stop %d", k, stop)
				require.NoError(t, after.acked.differs(after.log), "call %d, stop %d", k, stop)
			})
		}
	}
	t.Logf("%d times, %d images", lacks, images)
	require.Greater(t, images, 100)
}
