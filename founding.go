package raft

import (
	"encoding/binary"
	"fmt"
)

// founder is the state of the member that founds the cluster, the voter of node.Config.Initial with the
// lowest id, from its start until it campaigns:
//
//	calling ──all others are blank, with our list──► holding ──all hold entry 1──► campaign in term 1
//
// The roll promises nothing, so that it may be called again as often as need be. Entry 1 becomes a
// cluster only when every member holds it durably; so whoever has a term proves that all held it.
type founder struct {
	list     Configuration
	roll     RequestID
	replies  []rollAnswer // one for each other member, in the list's order
	holding  bool         // entry 1 is written
	resendAt Time
	redoAt   Time // holding: when to call the roll again; 0 until entry 1 is durable here
	redone   int  // how often that was
}

// rollAnswer is what is known of one member in the present roll.
type rollAnswer struct {
	id      NodeID
	peer    Peer // as it answered
	verdict RollVerdict
	founder Peer // RollNotBlank
	term    Term // RollNotBlank
	holds   bool // entry 1 is durable there
}

// redoTimeouts is how many election timeouts a founder that holds entry 1 waits for the others to hold it
// before it calls the roll again: one of them may have been emptied. It doubles with each time, since
// their disks may only be slow.
const redoTimeouts = 10

// startFounding makes this member a founder if it is to be one: the first of the list, while its
// durable term is 0.
func (c *Core) startFounding() {
	list := c.foundingList()
	if c.hard.Term > 0 || !calls(list, c.self.ID) {
		return
	}
	if f := c.log.Founding; f != nil && f.Founder != c.self {
		return
	}
	c.founder = &founder{list: list}
	c.callRoll()
}

// calls reports whether this member is the one that calls the roll of the list.
func calls(list Configuration, id NodeID) bool {
	voters := list.Voters()
	return len(voters) > 0 && voters[0].ID == id
}

// foundingList is the list of node.Config.Initial, or, once it was dropped, the one that entry 1 names.
func (c *Core) foundingList() Configuration {
	if len(c.cfg.Initial.Members) > 0 || c.log.Founding == nil {
		return c.cfg.Initial
	}
	members := make([]Member, 0, len(c.config().Members))
	for _, m := range c.config().Members {
		m.Incarnation = 0
		members = append(members, m)
	}
	return NewConfiguration(members)
}

// callRoll begins a roll: answers to an earlier one do not count.
func (c *Core) callRoll() {
	f := c.founder
	f.roll, f.holding = c.nextID(), false
	f.replies = nil
	for _, m := range f.list.Members {
		if m.ID != c.self.ID {
			f.replies = append(f.replies, rollAnswer{id: m.ID})
		}
	}
	c.note(Note{Kind: NoteRollCall})
	c.resendFounding()
	c.found()
}

// resendFounding asks everyone who has not answered what the founding waits for.
func (c *Core) resendFounding() {
	for i := range c.founder.replies {
		c.sendFounding(&c.founder.replies[i])
	}
	c.founder.resendAt = c.now.Mono + c.electionTimeout()
}

func (c *Core) sendFounding(a *rollAnswer) {
	f := c.founder
	switch {
	case !f.holding && a.verdict != RollBlank:
		c.send(Peer{ID: a.id}, RollCall{ID: f.roll, List: f.list})
	case f.holding && !a.holds && c.disk.persisted >= 1:
		c.send(a.peer, FoundRequest{Entry: c.foundingEntry()})
	}
}

// wakeAt is when to ask again, or to call the roll again.
func (f *founder) wakeAt() Time {
	if f.holding && f.redoAt > 0 {
		return min(f.resendAt, f.redoAt)
	}
	return f.resendAt
}

func (c *Core) onFounderDeadline() {
	f := c.founder
	switch {
	case f.holding && f.redoAt > 0 && c.now.Mono >= f.redoAt:
		f.redone++
		c.callRoll()
	case c.now.Mono >= f.resendAt:
		c.resendFounding()
	}
}

// onFounderPeerUp asks a member again that has just come up; one that came back as another
// incarnation while it was to hold entry 1 makes the founder call the roll again.
func (c *Core) onFounderPeerUp(e PeerUp) {
	if c.founder == nil {
		return
	}
	a := c.founder.reply(e.ID)
	if a == nil {
		return
	}
	if another := a.verdict != 0 && a.peer.Incarnation != e.Incarnation; another && c.founder.holding {
		c.callRoll()
		return
	} else if another {
		*a = rollAnswer{id: a.id}
	}
	c.sendFounding(a)
}

func (f *founder) reply(id NodeID) *rollAnswer {
	for i := range f.replies {
		if f.replies[i].id == id {
			return &f.replies[i]
		}
	}
	return nil
}

// onRollCall answers who this member is. The answer promises nothing.
func (c *Core) onRollCall(from Peer, r RollCall) {
	if !calls(r.List, from.ID) {
		c.note(Note{Kind: NoteRefused, Peer: from.ID, Text: "only the first voter of the list calls the roll"})
		return
	}
	reply := RollReply{ID: r.ID, Verdict: RollNotBlank, List: c.foundingList(), Wall: c.now.Wall}
	switch {
	case c.mayRedo(from, r.ID), c.blank() && len(reply.List.Members) > 0:
		reply.Verdict = RollBlank
		if !reply.List.SameList(r.List) {
			reply.Verdict = RollDiffers
		}
	case c.blank():
		reply.Verdict = RollNoInitial
	case c.log.Founding != nil:
		reply.Founder = c.log.Founding.Founder
	}
	c.note(Note{Kind: NoteRollAnswer, Peer: from.ID, Text: reply.Verdict.String()})
	c.send(from, reply)
}

// mayRedo: a holder at term 0 answers the same founder incarnation as if it were blank, and takes its
// founding with a higher roll. From the first campaign on, never again.
func (c *Core) mayRedo(founder Peer, roll RequestID) bool {
	f := c.log.Founding
	return f != nil && c.hard == HardState{} && f.Founder == founder && f.Roll.Less(roll)
}

func (c *Core) onRollReply(m Message, r RollReply) {
	f := c.founder
	if f == nil || f.holding || r.ID != f.roll {
		return
	}
	a := f.reply(m.From.ID)
	if a == nil {
		return
	}
	if r.Verdict == RollBlank && !r.List.SameList(f.list) {
		c.refuse(m, "it claims to have our list and shows another")
		return
	}
	c.hearClock(m.From.ID, r.Wall)
	*a = rollAnswer{id: a.id, peer: m.From, verdict: r.Verdict, founder: r.Founder, term: m.Term}
	c.found()
}

// found writes entry 1 once every other member has answered that it is blank and has the same list.
func (c *Core) found() {
	f := c.founder
	for _, a := range f.replies {
		if a.verdict != RollBlank {
			return
		}
	}
	members := make([]Member, 0, len(f.list.Members))
	for _, m := range f.list.Members {
		m.Incarnation = c.self.Incarnation
		if a := f.reply(m.ID); a != nil {
			m.Incarnation = a.peer.Incarnation
		}
		members = append(members, m)
	}
	founding := Founding{
		Cluster: c.freshCluster(), Founder: c.self, Roll: f.roll, Configuration: NewConfiguration(members),
	}
	f.holding, f.redoAt = true, 0
	c.adoptFounding(founding.Founder, Entry{
		Index: 1, Kind: EntryFounding, Time: c.stampNow(), Data: founding.Encode(),
	})
}

// freshCluster returns a cluster id that no earlier founding used: random by start, and by roll.
func (c *Core) freshCluster() ClusterID {
	id := c.cfg.NewCluster
	last := binary.LittleEndian.Uint64(id[8:])
	binary.LittleEndian.PutUint64(id[8:], last^c.founder.roll.Counter)
	return id
}

// adoptFounding makes entry 1 the whole log.
func (c *Core) adoptFounding(founder Peer, e Entry) {
	assert(c.hard == HardState{} && c.log.commit == 0, "a cluster is founded before its first term")
	if c.log.Last.Index > 0 {
		c.truncate(0)
	}
	c.appendEntries([]Entry{e})
	c.note(Note{Kind: NoteFounded, Peer: founder.ID, ID: e.ID()})
}

// foundingEntry is entry 1 again, for a member that has not acknowledged it.
func (c *Core) foundingEntry() Entry {
	return Entry{Index: 1, Kind: EntryFounding, Time: c.log.LastTime, Data: c.log.Founding.Encode()}
}

// onFoundingPersisted sends entry 1 to all once it is durable here.
func (c *Core) onFoundingPersisted() {
	if f := c.founder; f != nil && f.holding && c.disk.persisted >= 1 {
		if f.redoAt == 0 {
			f.redoAt = c.now.Mono + redoTimeouts*c.electionTimeout()<<min(f.redone, doublingsMax)
		}
		c.resendFounding()
		c.checkHeld()
	}
}

// onFoundRequest makes entry 1 durable before it is acknowledged.
func (c *Core) onFoundRequest(m Message, r FoundRequest) {
	if later, ok := ofLaterRelease([]Entry{r.Entry}); ok {
		c.note(Note{Kind: NoteLaterVersion, Peer: m.From.ID, ID: later.ID()})
		return
	}
	f, err := DecodeFounding(r.Entry.Data)
	if err != nil || r.Entry.ID() != (EntryID{0, 1}) || r.Entry.Kind != EntryFounding || f.Founder != m.From || f.Cluster != m.Cluster ||
		!calls(f.Configuration, m.From.ID) {
		c.refuse(m, "its entry 1 is no founding by its sender")
		return
	}
	if self, ok := f.Configuration.Member(c.self.ID); !ok || self.Peer() != c.self {
		c.refuse(m, "its founding names this member with another incarnation")
		return
	}
	held := c.log.Founding != nil && c.log.Founding.Founder == f.Founder && c.log.Founding.Roll == f.Roll
	switch {
	case held && c.hard == HardState{}:
	case c.blank() && c.cfg.Initial.SameList(f.Configuration), c.mayRedo(m.From, f.Roll):
		c.adoptFounding(f.Founder, r.Entry)
	default:
		c.refuse(m, "this member is not blank, or has another list")
		return
	}
	c.promiseLog(m.From, FoundReply{ID: f.Roll}, 1)
}

func (c *Core) onFoundReply(from Peer, r FoundReply) {
	f := c.founder
	if f == nil || !f.holding || r.ID != f.roll {
		return
	}
	if a := f.reply(from.ID); a != nil && a.peer == from {
		a.holds = true
	}
	c.checkHeld()
}

// checkHeld campaigns, in term 1, only when all hold entry 1.
func (c *Core) checkHeld() {
	for _, a := range c.founder.replies {
		if !a.holds {
			return
		}
	}
	if c.disk.persisted < 1 {
		return
	}
	if m, ok := c.config().Member(c.self.ID); ok && m.Kind == Voter {
		c.campaign(false)
	}
}

// missing says what a founding waits for, one sentence a member.
func (f *founder) missing() []string {
	if f == nil {
		return nil
	}
	var missing []string
	allAtZero := true
	for _, a := range f.replies {
		allAtZero = allAtZero && a.verdict == RollNotBlank && a.term == 0
		if s := f.lacks(a); s != "" {
			missing = append(missing, s)
		}
	}
	if allAtZero && len(f.replies) > 0 {
		missing = append(missing, "nothing was ever committed: empty all stores and start again")
	}
	return missing
}

func (f *founder) lacks(a rollAnswer) string {
	switch {
	case f.holding && !a.holds:
		return fmt.Sprintf("%s has not yet stored the founding entry", a.id)
	case f.holding:
		return ""
	case a.verdict == 0:
		return fmt.Sprintf("%s has not answered the roll call", a.id)
	case a.verdict == RollDiffers:
		return fmt.Sprintf("%s was started with another list of initial members", a.id)
	case a.verdict == RollNoInitial:
		return fmt.Sprintf("%s was started without a list of initial members", a.id)
	case a.verdict == RollNotBlank:
		return fmt.Sprintf("%s already belongs to a cluster, founded by %s (incarnation %v), in term %d",
			a.id, a.founder.ID, a.founder.Incarnation, a.term)
	}
	return ""
}

// Initialize makes the member of a blank store one of a cluster whose members are known beforehand, in place of
// the founding that node.Config.Initial begins: for tests, and for whoever creates many groups and knows all
// members of each. It changes s to what a Load would return afterwards. Make the write that it returns durable
// before NewCore gets s. The member begins in term 1, in which nobody leads.
//
// It is safe exactly if
//   - every member of the configuration does it, with the same cluster id and the same configuration, the
//     incarnations included. The store was loaded with this member's: see Identity.Fresh;
//   - the cluster id and the incarnations were drawn at random for this cluster, and no other ever had them;
//   - a member never does it again once its core has run. An emptied disk has forgotten votes and entries that
//     others count on, and the same incarnation would count on. Such a member is lost, like its disk.
//
// If the process ends in between, do it again: a store that has a part of the write gets all of it, and one that
// belongs to this cluster already stays as it is, with nothing to write. Any other store that is not blank is
// refused with ErrNotBlank, and a bad argument with a *ConfigError.
func (s *Stored) Initialize(id NodeID, cluster ClusterID, c Configuration) (StorageWrite, error) {
	hard := HardState{Term: 1}
	if s.Mark != nil {
		return StorageWrite{}, s.Mark.Err()
	}
	if s.Log.Founding != nil && s.Log.Founding.Cluster == cluster {
		return StorageWrite{}, nil
	}
	if s.Log.Last != (EntryID{}) || s.Hard != hard && s.Hard != (HardState{}) {
		return StorageWrite{}, fmt.Errorf("%w: its term is %d, its last entry %v", ErrNotBlank, s.Hard.Term, s.Log.Last)
	}
	f := Founding{Cluster: cluster, Configuration: NewConfiguration(c.Members)}
	if voters := f.Configuration.Voters(); len(voters) > 0 {
		f.Founder = voters[0].Peer()
	}
	e := Entry{Index: 1, Kind: EntryFounding, Data: f.Encode()}
	if _, err := DecodeFounding(e.Data); err != nil {
		return StorageWrite{}, &ConfigError{"Configuration", err}
	}
	if self, _ := f.Configuration.Member(id); self.Peer() != (Peer{id, s.Incarnation}) {
		return StorageWrite{}, &ConfigError{"Configuration", fmt.Errorf(
			"it names member %q with incarnation %v, and the store has %v: load a blank store with the one that the configuration names, as Identity.Fresh",
			id, self.Incarnation, s.Incarnation)}
	}
	e.Seal()
	if err := s.Log.Observe(e); err != nil {
		return StorageWrite{}, err
	}
	s.Hard = hard
	return StorageWrite{Hard: &hard, Log: &LogWrite{Entries: []Entry{e}}}, nil
}
