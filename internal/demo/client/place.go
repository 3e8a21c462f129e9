package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Place holds the location of a running demo. Each demo publishes its Place for the other commands in a small file. The file
// is in a directory of this user, below the temporary directory.
type Place struct {
	PID     int      `json:"pid"`     // of the demo
	Servers []string `json:"servers"` // base URLs
}

const (
	placeBytesMax   = 64 << 10
	placeServersMax = 255
)

// ErrNoDemo is matched by the errors of FindPlace. It means that no demo runs here, or that its file cannot be trusted.
var ErrNoDemo = errors.New("no running demo found: start one with 'raftkv demo', or name a server with --server URL")

func placeDir() string {
	return filepath.Join(os.TempDir(), "raftkv-"+strconv.Itoa(os.Getuid()))
}

func (p Place) file() string {
	return filepath.Join(placeDir(), "demo-"+strconv.Itoa(p.PID)+".json")
}

// FindPlace returns the place of the most recently started demo that still runs. A forged file could redirect this user's
// writes. Therefore the file must be in a directory that only this user can write to.
func FindPlace() (Place, error) {
	files, err := placeFiles()
	if err != nil {
		return Place{}, err
	}
	err = ErrNoDemo
	for _, file := range files {
		place, failed := readPlace(file)
		switch {
		case failed != nil:
			err = fmt.Errorf("%w (%s: %w)", ErrNoDemo, file, failed)
		case running(place.PID):
			return place, nil
		}
	}
	return Place{}, err
}

// placeFiles returns the files of all demos, newest first.
func placeFiles() ([]string, error) {
	if _, err := os.Lstat(placeDir()); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err := checkPrivate(placeDir()); err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNoDemo, err)
	}
	files, err := filepath.Glob(filepath.Join(placeDir(), "demo-*.json"))
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNoDemo, err)
	}
	began := map[string]time.Time{}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil { // an error means that its demo has just ended
			began[file] = info.ModTime()
		}
	}
	slices.SortFunc(files, func(a, b string) int { return began[b].Compare(began[a]) })
	return files, nil
}

func readPlace(name string) (p Place, err error) {
	file, err := os.Open(name)
	if err != nil {
		return p, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, placeBytesMax))
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, err
	}
	return p, p.check()
}

func (p Place) check() error {
	if len(p.Servers) == 0 || len(p.Servers) > placeServersMax {
		return fmt.Errorf("%d servers", len(p.Servers))
	}
	for _, server := range p.Servers {
		if u, err := url.Parse(server); err != nil || u.Scheme != "http" || u.Hostname() != "127.0.0.1" {
			return fmt.Errorf("%q is not a server on this machine", server)
		}
	}
	return nil
}

// Save publishes this place until its demo ends or saves another place. It also removes the files of demos that were killed.
func (p Place) Save() error {
	if err := os.Mkdir(placeDir(), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	files, err := placeFiles()
	if err != nil {
		return err
	}
	for _, file := range files {
		if other, err := readPlace(file); err != nil || !running(other.PID) {
			_ = os.Remove(file) // if that fails, FindPlace skips the file
		}
	}
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	fresh := p.file() + ".new"
	if err := os.WriteFile(fresh, data, 0o600); err != nil {
		return err
	}
	if before, err := os.Stat(p.file()); err == nil { // keep the time: the servers have changed, the start has not
		_ = os.Chtimes(fresh, time.Time{}, before.ModTime())
	}
	return os.Rename(fresh, p.file())
}

// Remove removes the file.
func (p Place) Remove() {
	_ = os.Remove(p.file()) // FindPlace skips a demo that has ended
}
