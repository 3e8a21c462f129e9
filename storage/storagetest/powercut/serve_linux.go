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
)

// serve mounts the tree on dir, executes the commands, one a line, and unmounts when they end.
func serve(dir string, commands io.Reader, answers io.Writer) error {
	s := &server{dir: dir, tree: newTree()}
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
	tree *tree
}

// mount creates a new mount of the tree for this life.
func (s *server) mount() error {
	_, err := fs.Mount(s.dir, &dirNode{node: node{s.tree, s.tree.life}, dir: s.tree.root}, &fs.Options{
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
	number := 0
	if len(command) == 2 {
		var err error
		if number, err = strconv.Atoi(command[1]); err != nil {
			return err
		}
	}
	switch {
	case len(command) == 1 && (command[0] == "fill" || command[0] == "free"):
		s.tree.mu.Lock()
		defer s.tree.mu.Unlock()
		s.tree.full = command[0] == "fill"
		return nil
	case len(command) == 1 && command[0] == "lie":
		s.tree.mu.Lock()
		defer s.tree.mu.Unlock()
		s.tree.lies = true
		return nil
	case len(command) == 1 && command[0] == "cut":
		return s.cut(keepNothing)
	case len(command) == 2 && command[0] == "cut":
		return s.cut(keepHalf(uint64(number)))
	case len(command) == 2 && command[0] == "syncs":
		s.tree.mu.Lock()
		defer s.tree.mu.Unlock()
		s.tree.syncsLeft = number
		return nil
	case len(command) == 2 && command[0] == "stall":
		s.tree.mu.Lock()
		defer s.tree.mu.Unlock()
		s.tree.syncDelay = time.Duration(number)
		return nil
	case len(command) == 1 && command[0] == "resume":
		s.tree.mu.Lock()
		defer s.tree.mu.Unlock()
		s.tree.resumeSyncs()
		return nil
	}
	return fmt.Errorf("powercut: unknown command %q", command)
}

// cut ends the present life. Files that are still open keep the old mount, detached, and get EIO.
func (s *server) cut(keep func() bool) error {
	s.tree.mu.Lock()
	s.tree.cut(keep)
	s.tree.mu.Unlock()
	if err := unix.Unmount(s.dir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting: %w", err)
	}
	return s.mount()
}
