package zoo

// formats: mutants in the treatment of five things: records of a later release, a write that drops the log, the time stamps
// of entries, repeated read requests, and messages of strangers.
var formats = []Mutant{
	mutant("Z01", "a record of a later version is reported as such", "it is read as one of this version", "N5",
		value("storage/record.go", `record[0] > known`, `false`)).arranged().outside("storage", "TellsALaterRelease"),
	mutant("Z02", "a store of a later format is refused", "it is read", "N5",
		value("storage/record.go", `m.Format > formatNewest`, `false`)).arranged().outside("storage", "TellsALaterRelease"),
	mutant("Z03", "an entry of an unknown kind is reported as from a later release", "it is reported as damaged", "N5",
		value("entry.go", `e.Kind < EntryCommand`, `!e.Kind.known()`)).arranged().seen("etcd, downgrades").outside(".", "OfALaterRelease"),
	mutant("Z04", "an append of a later release is refused", "it is accepted", "N5",
		before("append.go", `for _, e := range entries {
		if !e.Kind.known() {`, `return Entry{}, false`)).arranged().outside(".", "OfALaterRelease"),
	mutant("Z05", "only an explicit reset drops the log", "one wrong term drops it", "G5",
		before("storage/bolt.go", `if err := b.checkAfter(log, record, w.After); err != nil {`, `
			if b.checkAfter(log, record, w.After) != nil {
				var err error
				if log, err = emptied(tx); err != nil { return err }
				record.start, record.last = w.After, w.After
			}`)).arranged().outside("storage", "KeepsTheContract"),
	mutant("Z06", "one wrong clock does not freeze the time stamps", "the leader believes its own clock", "N39",
		value("clock.go", `max(min(c.now.Wall, latest), c.log.LastTime)`, `max(c.now.Wall, c.log.LastTime)`)).arranged().profiles("swarm", "alone").must(),
	mutant("Z07", "votes carry the clocks of a quorum", "the first entry of a term is stamped by only one clock", "N39",
		instead("election.go", `c.hearClock(from, r.Wall)`, ``)).arranged().profiles("swarm", "alone").must(),
	mutant("Z08", "a stranger's reply raises no term", "it deposes the leader", "N12",
		value("message.go", `c.names(m.From)`, `true`)).arranged().profiles("swarm", "alone").must(),
	mutant("Z09", "a repeated read request waits once", "each repetition counts towards the limit", "N32",
		value("read.go", `c.leader.reads.holds(from, r.ID)`, `false`)).arranged().profiles("slow", "swarm").or("Read").must(),
	mutant("Z10", "a deposed leader refuses a read as such", "it refuses the read as overloaded", "N33",
		value("read.go", `r.Refusal == RefusedNotLeader`, `false`)).arranged().profiles("slow", "swarm").or("Read").must(),
	mutant("Z11", "every field of a message is encoded", "one field is not", "N5",
		instead("transport/wire.go", `c.number("ak", &w.Acked)`, ``)).arranged().test("transport", "Wire"),
	mutant("Z12", "a number of 33 bits takes 8 bytes", "it takes 4 and loses a bit", "N5",
		value("transport/fields.go", `v <= math.MaxUint32`, `v <= 1<<32`)).arranged().outside("transport", "Wire"),
	mutant("Z13", "a decoded message keeps nothing of the previous one", "fields that it lacks keep their values", "N5",
		instead("transport/wire.go", `w.reset()
	if w.decodeOwn(meta) {
		return nil
	}`, `if w.decodeOwn(meta) {
		return nil
	}`)).arranged().test("transport", "Wire"),
}
