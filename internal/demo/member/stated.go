package member

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/files"
)

// addressesFile is the file in the data directory with the address flags that were the member's entry in the configuration.
const addressesFile = "addresses.json"

// addresses say where a member is reached: by the other members, and by clients. What is "" is not known.
type addresses struct {
	Raft string `json:"raft"`
	URL  string `json:"url"`
}

// readAddresses returns the flags that were right when the member ran last. known is false if it has not said that yet.
func readAddresses(dir string) (was addresses, known bool) {
	file := filepath.Join(dir, addressesFile)
	if files.CheckRegular(file) != nil { // to read a named pipe would wait for somebody who writes to it
		return addresses{}, false
	}
	text, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(text, &was) != nil { // then it has to be told by --advertise and --url
		return addresses{}, false
	}
	return was, true
}

// forgetAddresses deletes the file: the next member in the directory has told nothing yet.
func forgetAddresses(dir string) error {
	if err := os.Remove(filepath.Join(dir, addressesFile)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// writeAddresses replaces the file. It need not survive a power failure.
func writeAddresses(dir string, now addresses) error {
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, addressesFile)
	if err := writeAnew(file+".new", append(text, '\n')); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// writeAnew writes a file in the place of what has its name. It does not open that: to open a named pipe would wait for
// somebody who reads from it, and the member would not end.
func writeAnew(name string, text []byte) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(name, text, 0o600); err != nil {
		_ = os.Remove(name) // a full disk leaves an empty one
		return err
	}
	return nil
}

// listens returns what the other members and clients dial if nothing stands between: what --raft-addr and --http-addr say.
func (o Options) listens() (at addresses) {
	if api.CheckAddress(o.RaftAddr) == nil {
		at.Raft = o.RaftAddr
	}
	if api.CheckAddress(o.HTTPAddr) == nil {
		at.URL = "http://" + o.HTTPAddr
	}
	return at
}

// stated returns where this member is reached as far as its command line says it: "" leaves the configuration as it is. A
// listening address alone says nothing, because others may reach it at another one, through a name or a gateway. But
// one that was the entry of the member when it ran last, and has been changed since, says that the member has moved. So does
// that of a member that joins, until it is known to have told it: later somebody may correct the entry.
func (o Options) stated(was addresses, known bool) addresses {
	listens := o.listens()
	moved := func(was, now string) string {
		if was == "" || was == now {
			return ""
		}
		return now
	}
	if len(o.Join) > 0 && !known {
		return addresses{cmp.Or(o.Advertise, listens.Raft), cmp.Or(o.URL, listens.URL)}
	}
	return addresses{cmp.Or(o.Advertise, moved(was.Raft, listens.Raft)), cmp.Or(o.URL, moved(was.URL, listens.URL))}
}

// proven returns the listening addresses that are the member's entry.
func (a addresses) proven(entry raft.Member) (p addresses) {
	if a.Raft == entry.Address {
		p.Raft = a.Raft
	}
	if sameURL(a.URL, entry.Meta) {
		p.URL = a.URL
	}
	return p
}

// sameURL reports whether two URLs name the same server.
func sameURL(a, b string) bool {
	u, err := url.Parse(a)
	v, failed := url.Parse(b)
	return a == b || err == nil && failed == nil && a != "" && u.Scheme == v.Scheme && u.Host == v.Host
}
