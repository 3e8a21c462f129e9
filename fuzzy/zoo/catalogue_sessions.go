package zoo

// sessionRules: the table of sessions, what keeps it, and when the log may hold entries of sessions.
var sessionRules = []Mutant{
	tableBug("C01", "a repeated command has no second effect", "it has", before("internal/sessions/table.go", `a, effect = t.command(s, r.Number, r.Floor)`, `s.answers = nil`)).
		seen("Redpanda #3039"),
	tableBug("C02", "a repeated command gets the first answer", "it gets an empty one",
		value("internal/sessions/table.go", `stored(s.answers[i].data)`, `Answer{Outcome: Applied}`)),
	tableBug("C03", "a session that has expired refuses its commands", "it is opened again",
		instead("internal/sessions/table.go", `return nil, Answer{Outcome: Expired}, Effect{}`, `s = &session{id: r.ID, floor: 1, window: 64}; t.add(s)`)),
	tableBug("C60", "a session's id is more than its index", "the index is enough", value("internal/sessions/table.go", `s.id != r.ID`, `false`)),
	tableBug("C61", "a command below the floor has no effect", "it has", value("internal/sessions/table.go", `number < s.floor`, `false`)),
	tableBug("C62", "a late copy does not lower the floor", "it does", value("internal/sessions/table.go", `floor <= s.floor`, `floor == s.floor`)),
	tableBug("C63", "a command beyond the window has no effect", "it has", value("internal/sessions/table.go", `number >= s.floor+uint64(s.window)`, `false`)),
	tableBug("C64", "stored bytes are counted up to the entry before, whatever the batches", "they are counted up to the batch",
		value("internal/sessions/table.go", `t.bytes+int64(pending)*(1+AnswerBytesMax) >= t.limits.Bytes`, `false`)),
	tableBug("C65", "a command that is repeated within a batch takes effect once", "its copy is answered without an answer",
		instead("internal/sessions/fsm.go", `r.repeats = append(r.repeats, place{i, of})`, `results[i] = Answer{Outcome: Applied}.Encode()`)),
	tableBug("C66", "the time of the table never falls or stands still", "it is that of the first entry",
		value("internal/sessions/table.go", `stamp > t.now`, `t.now == 0`)),
	tableBug("C67", "a session is used by its commands", "only its opening counts", instead("internal/sessions/table.go", `t.use(s)`, `_ = s`)),
	tableBug("C68", "a restart finds the sessions in the order of use", "in the order of their indexes",
		value("internal/sessions/stored.go", `cmp.Compare(a.used, b.used)`, `0`)),
	tableBug("C69", "a removed session takes its answers along", "they stay in the store of a DurableFSM",
		before("internal/sessions/stored.go", `if c != nil {
		c.list = append(c.list, Change{Key: keyOf(`, `return`)),
	tableBug("P06", "a snapshot has the table of sessions", "it has the state alone",
		value("internal/sessions/fsm.go", `f.table.unused()`, `true`)).seen("redisraft #568; atomix #341, #1101"),
	testedFile("C71", "an outcome that is unknown is tried again with the same number", "it is the caller's", "tests", "session", "TestSession_ARetryGetsTheFirstAnswer",
		value("session/carry.go", `!retries(o.err)`, `true`)),
	testedFile("C72", "an FSM without sessions gets none of their entries", "it gets them as commands", "tests", "session", "TestSession_AMemberWithoutSessions",
		value("node/sessions.go", `no != nil && slices.ContainsFunc(entries, func(e raft.Entry) bool { return e.Kind == raft.EntrySession })`, `false`)),
	mutant("C73", "the configuration that allows sessions needs a committed entry of the term", "it does not", "G19",
		value("session.go", `!c.committedOwn()`, `false`)).arranged().profiles("sessions").test(".", "TestSessions_WaitForTheFirstCommit"),
	mutant("C74", "no session is opened beside an earlier release", "one is", "G25",
		value("session.go", `c.membersOnOlderProtocol(next)`, `refusal{}`)).arranged().profiles("sessions").test(".", "TestSessions_AnEarlierRelease"),
	tableBug("C75", "a floor that rises is stored, whenever that is", "only if the stamp is a new one",
		before("internal/sessions/table.go", `t.unlink(s)
	s.used = t.now`, `if s.used == t.now && t.newest == s { return }`)),
	tableBug("C76", "all answers that are not known yet may be large", "one of them", instead("internal/sessions/fsm.go", `r.pending++`, `r.pending = 1`)),
	tableBug("C77", "a restored table counts as before", "it counts the answers' bytes alone",
		instead("internal/sessions/stored.go", `t.bytes += answerBytes + int64(len(data))`, `t.bytes += int64(len(data))`)),
	tableBug("C78", "a command that is repeated within a batch gets its own answer", "that of another session with its number",
		value("internal/sessions/fsm.go", `p.effect.session == repeated.session && p.effect.number == repeated.number`, `p.effect.number == repeated.number`)),
	tableBug("C79", "a command raises the floor, although it is refused", "a full table raises none", instead("internal/sessions/table.go", `t.raise(s, floor)`, `if t.bytes < t.limits.Bytes { t.raise(s, floor) }`)),
	tableBug("C80", "a removed session counts no longer", "its answers do",
		before("internal/sessions/table.go", `t.bytes -= sessionBytes`, `for i := range s.answers { t.bytes += answerBytes + int64(len(s.answers[i].data)) }`)),
	testedFile("C81", "a batch behind a restored state confirms it", "a later Sync stores the restored entry", "tests", "boltfsm", "TestFSM_ABatchConfirms",
		before("boltfsm/fsm.go", `if err == nil {
		f.restored = raft.EntryID{}
	}
	return err
}

func store(`, `return err`)),
	testedFile("C84", "an attempt that may be applied makes the outcome unknown", "only if it is the last one", "tests", "session", "TestSession_ARefusalBehindALostAnswer",
		before("session/carry.go", `o.attempts = o.attempts || errors.Is(`, `o.attempts = false`)),
	testedFile("C85", "an answer outlives its transaction", "it is bytes of the file, which later transactions change", "tests", "boltfsm", "TestFSM_AnAnswerOutlives",
		value("boltfsm/fsm.go", `bytes.Clone(answer)`, `answer`)),
	testedFile("C82", "the floor rises over no number that is under way", "it rises over the last one", "tests", "session", "TestDurable_ACrashAfterAnyTransaction",
		before("session/session.go", `if number > s.floor {`, `s.floor = max(s.floor, number)`)),
	testedFile("C83", "a number is used once", "that of a command that was given up is used again", "tests", "session", "TestSession_ACommandThatIsGivenUp",
		before("session/session.go", `before := s.floor`, `if number == s.next-1 && first.Err() != nil { s.next--; return }`)),
}

func tableBug(id, rule, bug string, edits ...Edit) Mutant {
	return mutant(id, rule, bug, "G24, H8, G18", edits...).arranged().profiles("sessions").test("internal/sessions", "TestTable_Follows|TestDurable")
}
