package transport

import (
	"slices"
	"strings"
	"time"

	"github.com/coxswain/raft"
)

// round is one pass through the addresses of a contact. A link pauses after each round.
type round struct {
	address string    // of the present connection, or of the last dial
	waiting bool      // neither dialing nor connected: the link pauses, or has not begun
	worked  string    // of the last connection; "": none yet, or the contact has changed its preferred address since
	tried   int       // number of addresses dialed in this round
	failed  []error   // errors of this round, one for each address
	refused time.Time // end of the first of the last rounds in which nobody listened at any address; zero: the last was another
	ended   time.Time // end of the last of these rounds
}

// refusedGapMax is the longest time between two rounds that counts as time of refusals. A process that was paused has tried
// nothing meanwhile, and the peer may have been there. It is above the longest pause between two dials (see RedialMax).
const refusedGapMax = 1500 * time.Millisecond

// order returns the addresses in the order in which to dial them: at least one, which may be empty.
func order(addresses []string, worked string) []string {
	switch i := slices.Index(addresses, worked); {
	case len(addresses) == 0:
		return []string{""}
	case i > 0:
		return slices.Concat(addresses[i:i+1], addresses[:i], addresses[i+1:])
	}
	return addresses
}

// next returns the peer. Its Address is the address to dial now.
func (k *link) next() raft.Member {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-k.redial: // this call uses the new addresses already
	default:
	}
	m := k.contact.Member
	all := order(k.contact.Addresses, k.round.worked)
	m.Address = all[min(k.round.tried, len(all)-1)]
	k.round.address, k.round.waiting = m.Address, false
	k.round.tried++
	return m
}

// roundEnds records that a dial of this address failed. If this was the last address of the round, roundEnds ends the round
// and returns the errors of all its dials. Otherwise it returns nil.
func (k *link) roundEnds(dialed string, err error) []error {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := &k.round
	r.failed = append(r.failed, err)
	if r.tried < len(order(k.contact.Addresses, r.worked)) {
		return nil
	}
	all := r.failed
	r.tried, r.failed, r.waiting = 0, nil, true
	k.status.RefusedFor = 0
	if now := time.Now(); !every(all, nobodyListens) {
		r.refused = time.Time{}
	} else {
		if r.refused.IsZero() || now.Sub(r.ended) > refusedGapMax {
			r.refused = now
		}
		r.ended = now
		k.status.RefusedFor = max(now.Sub(r.refused), 1)
	}
	k.status.Connected, k.status.Address, k.status.Err = false, dialed, joined(all)
	return all
}

// connected records that the connection to the peer is open, and ends the round. named is the address in the contact. dialed
// is the address that a resolver returned for named.
func (k *link) connected(named, dialed string, roundTrip time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.round = round{address: named, worked: named}
	k.status = raft.PeerStatus{Connected: true, Address: dialed, RoundTrip: roundTrip}
}

// disconnected records that the connection has ended.
func (k *link) disconnected(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.round.waiting = true
	k.status.Connected, k.status.Err = false, why
}

// readdress replaces the contact. If the contact still names the address in use, the link keeps its connection, or continues
// its dial. If not, or if the link is waiting, the link begins a round with the new addresses.
func (k *link) readdress(c raft.Contact) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.contact.Addresses
	k.contact = c
	if slices.Equal(before, c.Addresses) {
		return
	}
	r := &k.round
	r.tried, r.failed, r.refused, k.status.RefusedFor = 0, nil, time.Time{}, 0
	if len(before) == 0 || len(c.Addresses) == 0 || before[0] != c.Addresses[0] {
		r.worked = ""
	}
	if r.waiting || !slices.Contains(c.Addresses, r.address) {
		signal(k.redial)
	}
}

func (k *link) peer() raft.PeerStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.status
	if time.Since(k.round.ended) > refusedGapMax { // this process was paused
		s.RefusedFor = 0
	}
	return s
}

func every(all []error, is func(error) bool) bool {
	return !slices.ContainsFunc(all, func(err error) bool { return !is(err) })
}

// joined returns the errors of several addresses as one error on one line.
func joined(all []error) error {
	if len(all) == 1 {
		return all[0]
	}
	return roundError(all)
}

type roundError []error

func (e roundError) Error() string {
	parts := make([]string, len(e))
	for i, err := range e {
		parts[i] = err.Error()
	}
	return strings.Join(parts, "; ")
}

func (e roundError) Unwrap() []error { return e }
