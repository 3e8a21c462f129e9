package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// slowSync is the extra time of each sync of a slow disk.
const slowSync = 20 * time.Millisecond

// mountSlow mounts a directory in which every sync of a file takes longer. This process serves the files, so it must run
// until unmount is called.
func mountSlow(dir string, pause time.Duration) (unmount func() error, err error) {
	behind := dir + ".behind"
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.MkdirAll(behind, 0o700)); err != nil {
		return nil, err
	}
	root, err := fs.NewLoopbackRoot(behind)
	if err != nil {
		return nil, err
	}
	server, err := fs.Mount(dir, slow(root, pause), &fs.Options{
		MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "slow", Name: "slow"},
	})
	if err != nil {
		return nil, err
	}
	return server.Unmount, nil
}

// slowNode is a file or a directory of a slow disk.
type slowNode struct {
	*fs.LoopbackNode
	pause time.Duration
}

var (
	_ fs.NodeFsyncer     = (*slowNode)(nil)
	_ fs.NodeWrapChilder = (*slowNode)(nil)
)

func slow(node fs.InodeEmbedder, pause time.Duration) *slowNode {
	return &slowNode{node.(*fs.LoopbackNode), pause}
}

// WrapChild makes the files below slow, too.
func (n *slowNode) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return slow(child, n.pause)
}

// Fsync pauses and syncs.
func (n *slowNode) Fsync(ctx context.Context, f fs.FileHandle, flags uint32) syscall.Errno {
	time.Sleep(n.pause)
	if file, can := f.(fs.FileFsyncer); can {
		return file.Fsync(ctx, flags)
	}
	return 0 // a directory
}
