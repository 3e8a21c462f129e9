package zoo

// formats: records of a later release, a write that drops the log, the stamps of entries, repeated read requests,
// and what a stranger may do.
var formats = []Mutant{
	{
		ID: "Z01", Before: true, Rule: "a record of a later version is reported as such", Bug: "it is read as one of this version",
		Edits:   []Edit{value("storage/record.go", `record[0] > known`, `false`)},
		Expect:  "N5",
		Test:    &Test{"storage", "TellsALaterRelease"},
		Outside: true,
	},
	{
		ID: "Z02", Before: true, Rule: "a store of a later format is refused", Bug: "it is read",
		Edits:   []Edit{value("storage/record.go", `m.Format > formatNewest`, `false`)},
		Expect:  "N5",
		Test:    &Test{"storage", "TellsALaterRelease"},
		Outside: true,
	},
	{
		ID: "Z03", Before: true, Rule: "an entry of an unknown kind is reported as one of a later release", Bug: "it is reported as damaged",
		Edits:  []Edit{value("entry.go", `e.Kind < EntryCommand`, `!e.Kind.known()`)},
		Expect: "N5", Seen: "etcd, downgrades", Test: &Test{".", "OfALaterRelease"}, Outside: true,
	},
	{
		ID: "Z04", Before: true, Rule: "an append of a later release is refused", Bug: "it is accepted",
		Edits: []Edit{before("append.go", `for _, e := range entries {
		if !e.Kind.known() {`, `return Entry{}, false`)},
		Expect:  "N5",
		Test:    &Test{".", "OfALaterRelease"},
		Outside: true,
	},
	{
		ID: "Z05", Before: true, Rule: "only an explicit reset drops the log", Bug: "one wrong term drops it",
		Edits: []Edit{before("storage/bolt.go", `if err := b.checkAfter(log, record, w.After); err != nil {`, `
			if b.checkAfter(log, record, w.After) != nil {
				var err error
				if log, err = emptied(tx); err != nil { return err }
				record.start, record.last = w.After, w.After
			}`)},
		Expect: "G5", Test: &Test{"storage", "KeepsTheContract"}, Outside: true,
	},
	{
		ID: "Z06", Before: true, Rule: "one wrong clock does not stop the stamps", Bug: "the leader believes its own clock",
		Edits:  []Edit{value("clock.go", `max(min(c.now.Wall, latest), c.log.LastTime)`, `max(c.now.Wall, c.log.LastTime)`)},
		Expect: "N39", MustKill: true,
		Profiles: []string{"swarm", "clock"},
	},
	{
		ID: "Z07", Before: true, Rule: "votes bring the clocks of a quorum", Bug: "the first entry of a term is stamped by only one clock",
		Edits:  []Edit{instead("election.go", `c.hearClock(from, r.Wall)`, ``)},
		Expect: "N39", MustKill: true,
		Profiles: []string{"swarm", "clock"},
	},
	{
		ID: "Z08", Before: true, Rule: "a stranger's reply raises no term", Bug: "it deposes the leader",
		Edits:  []Edit{value("message.go", `c.names(m.From)`, `true`)},
		Expect: "N12", MustKill: true,
		Profiles: []string{"swarm", "network"},
	},
	{
		ID: "Z09", Before: true, Rule: "a repeated read request waits once", Bug: "each repetition counts towards the limit",
		Edits:  []Edit{value("read.go", `c.leader.reads.holds(from, r.ID)`, `false`)},
		Expect: "N32", MustKill: true, Profiles: []string{"slow", "swarm"}, Test: &Test{".", "Read"},
	},
	{
		ID: "Z10", Before: true, Rule: "a deposed leader refuses a read as such", Bug: "it refuses the read as overloaded",
		Edits:  []Edit{value("read.go", `r.Refusal == RefusedNotLeader`, `false`)},
		Expect: "N33", MustKill: true, Profiles: []string{"slow", "swarm"}, Test: &Test{".", "Read"},
	},
	{
		ID: "Z11", Before: true, Rule: "every field of a message is encoded", Bug: "one is not",
		Edits:  []Edit{instead("transport/wire.go", `c.number("ak", &w.Acked)`, ``)},
		Expect: "N5", Test: &Test{"transport", "Wire"},
	},
	{
		ID: "Z12", Before: true, Rule: "a number of 33 bits takes 8 bytes", Bug: "it takes 4 and loses a bit",
		Edits:  []Edit{value("transport/fields.go", `v <= math.MaxUint32`, `v <= 1<<32`)},
		Expect: "N5", Test: &Test{"transport", "Wire"}, Outside: true,
	},
	{
		ID: "Z13", Before: true, Rule: "decoding a message keeps nothing of the one before it", Bug: "fields that it lacks keep their values",
		Edits: []Edit{instead("transport/wire.go", `w.reset()
	if w.decodeOwn(meta) {
		return nil
	}`, `if w.decodeOwn(meta) {
		return nil
	}`)},
		Expect: "N5", Test: &Test{"transport", "Wire"},
	},
}
