package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// ExistsError reports a file that WriteWhole would have replaced. Nothing was changed.
type ExistsError struct{ Name, Remedy string }

func (e *ExistsError) Error() string {
	return e.Name + " exists already, and nothing was changed: " + e.Remedy
}

// WriteWhole writes a new file that appears under its name only when write has returned without an error and everything is
// durable. Until then it is name.part, which is removed if something fails. WriteWhole replaces no file: an *ExistsError says
// which one is in the way.
func WriteWhole(name string, write func(*os.File) error) (err error) {
	if err := absent(name); err != nil {
		return err
	}
	part := name + ".part"
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return &ExistsError{part, "another command is writing to it, or was killed: then remove it"}
	}
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = absent(name)
	}
	if err == nil {
		err = os.Rename(part, name)
	}
	if err != nil {
		_ = os.Remove(part) // it is incomplete, whatever its name
		return err
	}
	return OS.SyncDir(filepath.Dir(name))
}

// absent returns an error if there is something under the name.
func absent(name string) error {
	switch _, err := os.Lstat(name); {
	case err == nil:
		return &ExistsError{name, "name another file, or remove it"}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}
