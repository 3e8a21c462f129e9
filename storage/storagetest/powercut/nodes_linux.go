// go-fuse does not compile on these.
//go:build !386 && !arm && !mips && !mipsle

package powercut

import (
	"context"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// node is what the files and directories of one mount share.
type node struct {
	tree *tree
	life uint64
}

// enter locks the tree for a call of this mount, unless the mount's power is gone.
func (n *node) enter() (*sync.Mutex, syscall.Errno) {
	n.tree.mu.Lock()
	if n.life != n.tree.life {
		n.tree.mu.Unlock()
		return nil, syscall.EIO
	}
	return &n.tree.mu, 0
}

type dirNode struct {
	node
	dir *dir
	fs.Inode
}

type fileNode struct {
	node
	file *file
	fs.Inode
}

var (
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
)

func describe(o object, out *fuse.Attr) {
	out.Ino, out.Nlink, out.Mode = o.inode(), 1, dirMode
	if f, ok := o.(*file); ok {
		out.Mode, out.Size = fileMode, uint64(len(f.data))
		out.Blocks = (out.Size + blockBytes - 1) / blockBytes
	}
}

// show registers the object with the kernel as a child of this directory.
func (n *dirNode) show(ctx context.Context, o object, out *fuse.EntryOut) *fs.Inode {
	describe(o, &out.Attr)
	if f, ok := o.(*file); ok {
		return n.NewInode(ctx, &fileNode{node: n.node, file: f}, fs.StableAttr{Mode: syscall.S_IFREG, Ino: f.ino})
	}
	d := o.(*dir)
	return n.NewInode(ctx, &dirNode{node: n.node, dir: d}, fs.StableAttr{Mode: syscall.S_IFDIR, Ino: d.ino})
}

func (n *dirNode) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	lock, errno := n.enter()
	if errno != 0 {
		return errno
	}
	defer lock.Unlock()
	describe(n.dir, &out.Attr)
	return 0
}

func (n *dirNode) Setattr(ctx context.Context, h fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return n.Getattr(ctx, h, out) // owners, permissions and times are not kept
}

func (n *dirNode) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	lock, errno := n.enter()
	if errno != 0 {
		return nil, errno
	}
	defer lock.Unlock()
	o, ok := n.dir.names[name]
	if !ok {
		return nil, syscall.ENOENT
	}
	return n.show(ctx, o, out), 0
}

func (n *dirNode) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	lock, errno := n.enter()
	if errno != 0 {
		return nil, errno
	}
	defer lock.Unlock()
	var list []fuse.DirEntry
	for _, name := range sortedNames(n.dir.names) {
		var attr fuse.Attr
		describe(n.dir.names[name], &attr)
		list = append(list, fuse.DirEntry{Name: name, Ino: attr.Ino, Mode: attr.Mode})
	}
	return fs.NewListDirStream(list), 0
}

func (n *dirNode) Create(
	ctx context.Context, name string, _, _ uint32, out *fuse.EntryOut,
) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	lock, errno := n.enter()
	if errno != 0 {
		return nil, nil, 0, errno
	}
	defer lock.Unlock()
	if n.tree.full {
		return nil, nil, 0, syscall.ENOSPC
	}
	f := n.tree.newFile()
	n.dir.names[name] = f
	return n.show(ctx, f, out), nil, fuse.FOPEN_KEEP_CACHE, 0
}

func (n *dirNode) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	lock, errno := n.enter()
	if errno != 0 {
		return nil, errno
	}
	defer lock.Unlock()
	d := n.tree.newDir()
	n.dir.names[name] = d
	return n.show(ctx, d, out), 0
}

func (n *dirNode) Link(
	ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut,
) (*fs.Inode, syscall.Errno) {
	f, ok := target.(*fileNode)
	if !ok {
		return nil, syscall.EPERM
	}
	lock, errno := n.enter()
	if errno != 0 {
		return nil, errno
	}
	defer lock.Unlock()
	n.dir.names[name] = f.file
	return n.show(ctx, f.file, out), 0
}

func (n *dirNode) Unlink(_ context.Context, name string) syscall.Errno {
	lock, errno := n.enter()
	if errno != 0 {
		return errno
	}
	defer lock.Unlock()
	delete(n.dir.names, name)
	return 0
}

func (n *dirNode) Rmdir(_ context.Context, name string) syscall.Errno {
	lock, errno := n.enter()
	if errno != 0 {
		return errno
	}
	defer lock.Unlock()
	if d, ok := n.dir.names[name].(*dir); ok && len(d.names) > 0 {
		return syscall.ENOTEMPTY
	}
	delete(n.dir.names, name)
	return 0
}

func (n *dirNode) Rename(
	_ context.Context, name string, to fs.InodeEmbedder, newName string, flags uint32,
) syscall.Errno {
	parent, ok := to.(*dirNode)
	if !ok || flags != 0 {
		return syscall.EINVAL
	}
	lock, errno := n.enter()
	if errno != 0 {
		return errno
	}
	defer lock.Unlock()
	if d, ok := parent.dir.names[newName].(*dir); ok && len(d.names) > 0 {
		return syscall.ENOTEMPTY
	}
	parent.dir.names[newName] = n.dir.names[name]
	delete(n.dir.names, name)
	return 0
}

func (n *dirNode) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	n.tree.stall()
	lock, errno := n.enter()
	if errno != 0 {
		return errno
	}
	defer lock.Unlock()
	return failedUnless(n.tree.syncDir(n.dir))
}

func failedUnless(ok bool) syscall.Errno {
	if ok {
		return 0
	}
	return syscall.EIO
}

func (n *fileNode) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	lock, errno := n.enter()
	if errno != 0 {
		return errno
	}
	defer lock.Unlock()
	describe(n.file, &out.Attr)
	return 0
}

func (n *fileNode) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	lock, errno := n.enter()
	if errno != 0 {
		return errno
	}
	defer lock.Unlock()
	if size, ok := in.GetSize(); ok {
		if n.tree.full && int64(size) > int64(len(n.file.data)) {
			return syscall.ENOSPC
		}
		n.file.resize(int64(size))
	}
	describe(n.file, &out.Attr)
	return 0
}

func (n *fileNode) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE, 0 // only the kernel of this mount changes the file
}

func (n *fileNode) Read(_ context.Context, _ fs.FileHandle, dest []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	lock, errno := n.enter()
	if errno != 0 {
		return nil, errno
	}
	defer lock.Unlock()
	read := copy(dest, n.file.data[min(offset, int64(len(n.file.data))):])
	return fuse.ReadResultData(dest[:read]), 0
}

func (n *fileNode) Write(_ context.Context, _ fs.FileHandle, data []byte, offset int64) (uint32, syscall.Errno) {
	lock, errno := n.enter()
	if errno != 0 {
		return 0, errno
	}
	defer lock.Unlock()
	if n.tree.full {
		return 0, syscall.ENOSPC
	}
	n.file.write(data, offset)
	return uint32(len(data)), 0
}

func (n *fileNode) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	n.tree.stall()
	lock, errno := n.enter()
	if errno != 0 {
		return errno
	}
	defer lock.Unlock()
	return failedUnless(n.tree.sync(n.file))
}
