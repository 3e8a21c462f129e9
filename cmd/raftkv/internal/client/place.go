package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
)

// Place is where a running demo is found: a small file of this user's in the temporary directory.
type Place struct {
	PID     int      `json:"pid"`     // of the demo
	Servers []string `json:"servers"` // base URLs
}

const (
	placeBytesMax   = 64 << 10
	placeServersMax = 255
)

// ErrNoDemo is matched by the errors of FindPlace: no demo runs here, or its file cannot be trusted.
var ErrNoDemo = errors.New("no running demo found: start one with 'raftkv demo', or name a server with --server URL")

func placeFile() string {
	return filepath.Join(os.TempDir(), "raftkv-"+strconv.Itoa(os.Getuid()), "demo.json")
}

// FindPlace returns the place of the demo that was started last. Whoever could have forged the file
// could redirect this user's writes: it must be in a directory that only this user can write to.
func FindPlace() (Place, error) {
	file, err := os.Open(placeFile())
	if err != nil {
		return Place{}, ErrNoDemo
	}
	defer file.Close()
	if err := checkPrivate(filepath.Dir(placeFile())); err != nil {
		return Place{}, fmt.Errorf("%w (%w)", ErrNoDemo, err)
	}
	data, err := io.ReadAll(io.LimitReader(file, placeBytesMax))
	if err != nil {
		return Place{}, fmt.Errorf("%w (%w)", ErrNoDemo, err)
	}
	var p Place
	if err := json.Unmarshal(data, &p); err != nil {
		return Place{}, fmt.Errorf("%w (%s: %w)", ErrNoDemo, placeFile(), err)
	}
	if err := p.check(); err != nil {
		return Place{}, fmt.Errorf("%w (%s: %w)", ErrNoDemo, placeFile(), err)
	}
	return p, nil
}

func (p Place) check() error {
	if len(p.Servers) == 0 || len(p.Servers) > placeServersMax {
		return fmt.Errorf("%d servers", len(p.Servers))
	}
	for _, server := range p.Servers {
		if u, err := url.Parse(server); err != nil || u.Scheme != "http" || u.Hostname() != "127.0.0.1" {
			return fmt.Errorf("%q is no server on this machine", server)
		}
	}
	return nil
}

// Save makes the place the one that FindPlace returns.
func (p Place) Save() error {
	dir := filepath.Dir(placeFile())
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := checkPrivate(dir); err != nil {
		return err
	}
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	fresh := placeFile() + "." + strconv.Itoa(p.PID)
	if err := os.WriteFile(fresh, data, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, placeFile())
}

// Remove removes the file, unless a later demo has written its own.
func (p Place) Remove() {
	if now, err := FindPlace(); err == nil && now.PID == p.PID {
		_ = os.Remove(placeFile()) // the next demo overwrites it
	}
}
