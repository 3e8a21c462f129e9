// go-fuse does not compile on these.
//go:build !386 && !arm && !mips && !mipsle

package powercut

import (
	"context"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/coxswain/raft/internal/crashdisk"
)

type dirNode struct {
	life *crashdisk.Life
	dir  *crashdisk.Dir
	fs.Inode
}

type fileNode struct {
	life *crashdisk.Life
	file *crashdisk.File
	fs.Inode
}

var (
	_ fs.NodeStatfser  = (*dirNode)(nil)
	_ fs.NodeGetattrer = (*dirNode)(nil)
	_ fs.NodeSetattrer = (*dirNode)(nil)
	_ fs.NodeLookuper  = (*dirNode)(nil)
	_ fs.NodeReaddirer = (*dirNode)(nil)
	_ fs.NodeCreater   = (*dirNode)(nil)
	_ fs.NodeMkdirer   = (*dirNode)(nil)
	_ fs.NodeLinker    = (*dirNode)(nil)
	_ fs.NodeUnlinker  = (*dirNode)(nil)
	_ fs.NodeRmdirer   = (*dirNode)(nil)
	_ fs.NodeRenamer   = (*dirNode)(nil)
	_ fs.NodeFsyncer   = (*dirNode)(nil)
	_ fs.NodeGetattrer = (*fileNode)(nil)
	_ fs.NodeSetattrer = (*fileNode)(nil)
	_ fs.NodeOpener    = (*fileNode)(nil)
	_ fs.NodeReader    = (*fileNode)(nil)
	_ fs.NodeWriter    = (*fileNode)(nil)
	_ fs.NodeFsyncer   = (*fileNode)(nil)
)

const (
	dirMode  = syscall.S_IFDIR | 0o700
	fileMode = syscall.S_IFREG | 0o600
	// statBlockBytes is the unit in which statfs reports the space of the disk.
	statBlockBytes = 512
	// rootBlocks is how many blocks statfs reports as free only for root. Many file systems have such blocks.
	rootBlocks = 2048
)

func describe(life *crashdisk.Life, o crashdisk.Object, out *fuse.Attr) {
	out.Ino, out.Nlink, out.Mode = o.Inode(), 1, dirMode
	if f, ok := o.(*crashdisk.File); ok {
		out.Mode, out.Size = fileMode, uint64(life.Size(f))
		out.Blocks = (out.Size + statBlockBytes - 1) / statBlockBytes
	}
}

// show registers the object with the kernel as a child of this directory.
func (n *dirNode) show(ctx context.Context, o crashdisk.Object, out *fuse.EntryOut) *fs.Inode {
	describe(n.life, o, &out.Attr)
	if f, ok := o.(*crashdisk.File); ok {
		return n.NewInode(ctx, &fileNode{life: n.life, file: f}, fs.StableAttr{Mode: syscall.S_IFREG, Ino: f.Inode()})
	}
	d := o.(*crashdisk.Dir)
	return n.NewInode(ctx, &dirNode{life: n.life, dir: d}, fs.StableAttr{Mode: syscall.S_IFDIR, Ino: d.Inode()})
}

func (n *dirNode) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	total, free, err := n.life.Space()
	if err != nil {
		return crashdisk.Errno(err)
	}
	out.Bsize, out.Frsize, out.NameLen = statBlockBytes, statBlockBytes, 255
	out.Blocks, out.Bavail = uint64(total)/statBlockBytes, uint64(free)/statBlockBytes
	out.Bfree = out.Bavail + rootBlocks
	return 0
}

func (n *dirNode) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	describe(n.life, n.dir, &out.Attr)
	return crashdisk.Errno(n.life.Alive())
}

func (n *dirNode) Setattr(ctx context.Context, h fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return n.Getattr(ctx, h, out) // owners, permissions and times are not kept
}

func (n *dirNode) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	o, err := n.life.Lookup(n.dir, name)
	if err != nil {
		return nil, crashdisk.Errno(err)
	}
	return n.show(ctx, o, out), 0
}

func (n *dirNode) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	all, err := n.life.List(n.dir)
	if err != nil {
		return nil, crashdisk.Errno(err)
	}
	var list []fuse.DirEntry
	for _, named := range all {
		var attr fuse.Attr
		describe(n.life, named.Object, &attr)
		list = append(list, fuse.DirEntry{Name: named.Name, Ino: attr.Ino, Mode: attr.Mode})
	}
	return fs.NewListDirStream(list), 0
}

func (n *dirNode) Create(
	ctx context.Context, name string, _, _ uint32, out *fuse.EntryOut,
) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	f, err := n.life.Create(n.dir, name)
	if err != nil {
		return nil, nil, 0, crashdisk.Errno(err)
	}
	return n.show(ctx, f, out), nil, fuse.FOPEN_KEEP_CACHE, 0
}

func (n *dirNode) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	d, err := n.life.MakeDir(n.dir, name)
	if err != nil {
		return nil, crashdisk.Errno(err)
	}
	return n.show(ctx, d, out), 0
}

func (n *dirNode) Link(
	ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut,
) (*fs.Inode, syscall.Errno) {
	f, ok := target.(*fileNode)
	if !ok {
		return nil, syscall.EPERM
	}
	if err := n.life.Link(n.dir, name, f.file); err != nil {
		return nil, crashdisk.Errno(err)
	}
	return n.show(ctx, f.file, out), 0
}

func (n *dirNode) Unlink(_ context.Context, name string) syscall.Errno {
	return crashdisk.Errno(n.life.Remove(n.dir, name))
}

func (n *dirNode) Rmdir(_ context.Context, name string) syscall.Errno {
	return crashdisk.Errno(n.life.Remove(n.dir, name))
}

func (n *dirNode) Rename(
	_ context.Context, name string, to fs.InodeEmbedder, newName string, flags uint32,
) syscall.Errno {
	parent, ok := to.(*dirNode)
	if !ok || flags != 0 {
		return syscall.EINVAL
	}
	return crashdisk.Errno(n.life.Rename(n.dir, name, parent.dir, newName))
}

func (n *dirNode) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return crashdisk.Errno(n.life.SyncDir(n.dir))
}

func (n *fileNode) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	describe(n.life, n.file, &out.Attr)
	return crashdisk.Errno(n.life.Alive())
}

func (n *fileNode) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		if err := n.life.Resize(n.file, int64(size)); err != nil {
			return crashdisk.Errno(err)
		}
	}
	describe(n.life, n.file, &out.Attr)
	return crashdisk.Errno(n.life.Alive())
}

func (n *fileNode) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE, 0 // only the kernel of this mount changes the file
}

func (n *fileNode) Read(_ context.Context, _ fs.FileHandle, dest []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	read, err := n.life.ReadAt(n.file, dest, offset)
	if errno := crashdisk.Errno(err); errno != 0 {
		return nil, errno
	}
	return fuse.ReadResultData(dest[:read]), 0
}

func (n *fileNode) Write(_ context.Context, _ fs.FileHandle, data []byte, offset int64) (uint32, syscall.Errno) {
	if err := n.life.WriteAt(n.file, data, offset); err != nil {
		return 0, crashdisk.Errno(err)
	}
	return uint32(len(data)), 0
}

func (n *fileNode) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return crashdisk.Errno(n.life.Sync(n.file))
}
