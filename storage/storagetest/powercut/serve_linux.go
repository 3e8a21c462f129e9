// go-fuse does not compile on these.
//go:build !386 && !arm && !mips && !mipsle

package powercut

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/coxswain/raft/internal/crashdisk"
)

// serve mounts the tree on dir, and executes the commands, one for each line. After the last command it unmounts the tree.
func serve(dir string, commands io.Reader, answers io.Writer) error {
	s := &server{dir: dir, tree: crashdisk.New()}
	if err := s.mount(); err != nil {
		return err
	}
	fmt.Fprintln(answers, "ok")
	lines := bufio.NewScanner(commands)
	for lines.Scan() {
		if err := s.obey(strings.Fields(lines.Text())); err != nil {
			fmt.Fprintln(answers, strings.ReplaceAll(err.Error(), "\n", "; "))
			continue
		}
		fmt.Fprintln(answers, "ok")
	}
	return unix.Unmount(dir, unix.MNT_DETACH)
}

type server struct {
	dir  string
	tree *crashdisk.Tree
}

// mount creates a new mount of the tree for the present Life.
func (s *server) mount() error {
	_, err := fs.Mount(s.dir, &dirNode{life: s.tree.Life(), dir: s.tree.Root()}, &fs.Options{
		NullPermissions: true,
		MountOptions: fuse.MountOptions{
			DirectMountStrict: true,
			FsName:            "powercut",
			Name:              "powercut",
			DisableXAttrs:     true,
		},
	})
	if err != nil {
		return fmt.Errorf("mounting with /dev/fuse: %w", err)
	}
	return nil
}

func (s *server) obey(command []string) error {
	number := int64(0)
	if len(command) == 2 {
		var err error
		if number, err = strconv.ParseInt(command[1], 10, 64); err != nil {
			return err
		}
	}
	switch {
	case len(command) == 1 && (command[0] == "fill" || command[0] == "free"):
		s.tree.Fill(command[0] == "fill")
	case len(command) == 2 && command[0] == "quota":
		s.tree.Quota(number)
	case len(command) == 1 && command[0] == "forget":
		s.tree.ForgetFailed()
	case len(command) == 1 && command[0] == "lie":
		s.tree.Lie()
	case len(command) == 1 && command[0] == "cut":
		return s.cut(crashdisk.KeepNothing)
	case len(command) == 2 && command[0] == "cut":
		return s.cut(crashdisk.KeepHalf(uint64(number)))
	case len(command) == 2 && command[0] == "syncs":
		s.tree.FailSyncs(int(number))
	case len(command) == 2 && command[0] == "stall":
		s.tree.StallSyncs(time.Duration(number))
	case len(command) == 1 && command[0] == "resume":
		s.tree.ResumeSyncs()
	default:
		return fmt.Errorf("powercut: unknown command %q", command)
	}
	return nil
}

// cut ends the present Life. Files that are still open keep the old, detached mount, and calls on them fail with EIO.
func (s *server) cut(keep func() bool) error {
	s.tree.Cut(keep)
	if err := unix.Unmount(s.dir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting: %w", err)
	}
	return s.mount()
}
