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

// addressesFile is the name of a file in the data directory. It holds the address flags that were equal to the member's
// entry in the configuration.
const addressesFile = "addresses.json"

// addresses holds the addresses at which the other members and clients reach a member. "" means unknown.
type addresses struct {
	Raft string `json:"raft"`
	URL  string `json:"url"`
}

// readAddresses returns the address flags that were equal to the entry when the member last ran. known is false if there is
// no record of them.
func readAddresses(dir string) (was addresses, known bool) {
	file := filepath.Join(dir, addressesFile)
	if files.CheckRegular(file) != nil { // reading a named pipe would wait for a writer
		return addresses{}, false
	}
	text, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(text, &was) != nil { // then only --advertise and --url state the addresses
		return addresses{}, false
	}
	return was, true
}

// forgetAddresses deletes the file, because the next member in the directory has not stated its addresses yet.
func forgetAddresses(dir string) error {
	if err := os.Remove(filepath.Join(dir, addressesFile)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// writeAddresses replaces the file. The file need not survive a power failure.
func writeAddresses(dir string, now addresses) error {
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, addressesFile)
	if err := files.WriteAnew(file+".new", append(text, '\n')); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// listens returns the addresses in --raft-addr and --http-addr. Others dial these addresses if there is no gateway in
// between.
func (o Options) listens() (at addresses) {
	if api.CheckAddress(o.RaftAddr) == nil {
		at.Raft = o.RaftAddr
	}
	if api.CheckAddress(o.HTTPAddr) == nil {
		at.URL = "http://" + o.HTTPAddr
	}
	return at
}

// stated returns the addresses of this member that its command line states. "" leaves the entry in the configuration
// unchanged. --advertise and --url state addresses.
//
// A listening address alone does not state an address, because others may reach the member at another address, through a name
// or a gateway. There are two exceptions. First, a listening address may equal the entry when the member last ran, and may
// have been changed since then. In this case the member has moved. Second, the listening addresses of a joining member count
// until they are recorded. They do not count later, because somebody may correct the entry.
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

// proven returns the listening addresses that are equal to the member's entry.
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
