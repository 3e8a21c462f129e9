package files

import "io/fs"

// ReadOnly returns a file system that changes nothing. OpenWrite opens a file for reading, and every call that would change
// something returns an error that matches fs.ErrPermission.
func ReadOnly(of FS) FS { return readOnly{of} }

type readOnly struct{ FS }

func refused(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrPermission} }

func (r readOnly) OpenWrite(name string) (File, error) { return r.Open(name) }

func (readOnly) Create(name string) (File, error) { return nil, refused("create", name) }

func (readOnly) Rename(from, _ string) error { return refused("rename", from) }

func (readOnly) Remove(name string) error { return refused("remove", name) }

func (readOnly) MakeDir(dir string) error { return refused("mkdir", dir) }

func (readOnly) SyncDir(dir string) error { return refused("sync", dir) }
