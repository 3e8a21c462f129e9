// Package powercut mounts a small file system that loses everything unsynced at a power cut. Use it to test with real files
// and real processes which data survives a power cut. Killing a process proves little, because the kernel keeps the data that
// the process wrote.
//
// A sync of a directory makes durable which names were created or removed in it. A sync of a file makes its bytes and its
// size durable. The disk writes blocks of 512 bytes as a whole. It keeps everything in memory, twice.
//
// A separate process serves the file system, because a process can deadlock if it maps a file that it serves itself. To get
// that process, the test program starts itself again. So call Main first in main or TestMain. Mount needs Linux on a 64-bit
// machine, /dev/fuse and the right to mount.
package powercut

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

// dirVariable is the environment variable that holds the directory on which the serving process mounts the file system.
const dirVariable = "COXSWAIN_POWERCUT_DIR"

// replyWait is how long the serving process may take to answer a command.
const replyWait = 30 * time.Second

// Main returns at once in an ordinary process. If Mount started this process, Main serves the file system and never returns.
func Main() {
	dir := os.Getenv(dirVariable)
	if dir == "" {
		return
	}
	// This process unmounts and ends when its parent ends. A terminal or a supervisor may send a signal to both processes.
	// Only the parent reacts to it.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if err := serve(dir, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stdout, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// FS is a mounted file system. Any goroutine may call its methods.
type FS struct {
	mu       sync.Mutex
	server   *exec.Cmd
	commands io.WriteCloser
	replies  *os.File
	lines    *bufio.Reader
	closed   bool
}

// Mount mounts an empty file system on the directory, which must exist. If that is not possible here, the error says why. The
// test should then skip and print the error.
func Mount(dir string) (*FS, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("powercut: finding this program: %w", err)
	}
	replies, answers, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("powercut: %w", err)
	}
	f := &FS{server: exec.Command(program), replies: replies, lines: bufio.NewReader(replies)}
	// Without this setting, a process under the race detector sleeps for a second when it ends.
	f.server.Env = append(os.Environ(), dirVariable+"="+dir, "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	f.server.Stdout, f.server.Stderr = answers, os.Stderr
	if f.commands, err = f.server.StdinPipe(); err == nil {
		err = f.server.Start()
	}
	_ = answers.Close()
	if err == nil {
		if err = f.reply(); err != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("powercut: cannot mount on %s: %w", dir, err)
	}
	return f, nil
}

// PowerCut loses everything that is not synced, and mounts the remaining content again. If a process still has files open,
// every later call on these files fails with EIO. End the process and start a new one.
func (f *FS) PowerCut() error { return f.command("cut") }

// PowerCutKeeping is like PowerCut, but keeps about half of the unsynced data, block by block and name by name. The seed
// decides which half.
func (f *FS) PowerCutKeeping(seed uint64) error { return f.command(fmt.Sprintf("cut %d", seed)) }

// FailSyncs lets the given number of further syncs succeed. Every later sync fails with EIO, until the next power cut or the
// next call of FailSyncs. A failed sync writes nothing. So a process that ends at a failed sync leaves the same content as a
// process that is killed within the sync. A negative number repairs the disk.
func (f *FS) FailSyncs(after int) error { return f.command(fmt.Sprintf("syncs %d", after)) }

// ForgetFailed makes every failed sync of a file mark the file's bytes as written, as Linux does. Processes still read these
// bytes. No later sync writes them, and the next power cut loses them.
func (f *FS) ForgetFailed() error { return f.command("forget") }

// Fill fills the disk if full is true, and empties it again if full is false. Every write to a full disk fails with ENOSPC.
// Even a write over existing data fails, as on a file system that never overwrites in place.
func (f *FS) Fill(full bool) error {
	if full {
		return f.command("fill")
	}
	return f.command("free")
}

// Quota limits the bytes of all files, in whole blocks. A call that would exceed the limit fails with ENOSPC. statfs reports
// the remaining bytes as free. 0 means no limit.
func (f *FS) Quota(bytes int64) error { return f.command(fmt.Sprintf("quota %d", bytes)) }

// Lie makes every later sync report success and write nothing. No other call ends that. A store on such a disk loses
// acknowledged data, and a test of the store should notice the loss.
func (f *FS) Lie() error { return f.command("lie") }

// StallSyncs makes every sync that begins from now on wait for the given time first, as on a stalled or slow disk. Reads and
// writes continue, but a write waits for a sync of the same file. The stall lasts until ResumeSyncs, the next power cut or
// Close. As with a real disk, a process that is killed within a sync ends only after the sync.
func (f *FS) StallSyncs(each time.Duration) error {
	if each <= 0 {
		return fmt.Errorf("powercut: a stall of syncs of %v; it takes more than 0", each)
	}
	return f.command(fmt.Sprintf("stall %d", each))
}

// ResumeSyncs ends a stall: waiting syncs continue at once, and later ones do not wait.
func (f *FS) ResumeSyncs() error { return f.command("resume") }

func (f *FS) command(line string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errors.New("powercut: file system is closed")
	}
	if _, err := io.WriteString(f.commands, line+"\n"); err != nil {
		return fmt.Errorf("powercut: the serving process has ended: %w", err)
	}
	return f.reply()
}

// reply reads the answer to a command: "ok", or an error.
func (f *FS) reply() error {
	if err := f.replies.SetReadDeadline(time.Now().Add(replyWait)); err != nil {
		return fmt.Errorf("powercut: %w", err)
	}
	line, err := f.lines.ReadString('\n')
	switch line = strings.TrimSpace(line); {
	case line == "ok":
		return nil
	case line != "":
		return errors.New(line)
	}
	return fmt.Errorf("powercut: the serving process gave no answer (is powercut.Main called first in main or TestMain?): %w", err)
}

// Close unmounts the file system and discards its content. It is idempotent.
func (f *FS) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	_ = f.commands.Close()
	timer := time.AfterFunc(replyWait, func() { _ = f.server.Process.Kill() })
	defer timer.Stop()
	err := f.server.Wait()
	return errors.Join(err, f.replies.Close())
}
