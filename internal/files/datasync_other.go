//go:build !linux

package files

func (f osFile) Datasync() error { return f.Sync() }
