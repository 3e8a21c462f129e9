package zoo

// ages: mutants that make a member take its state for younger than it is.
var ages = []Mutant{
	aged("Q60", "times of an earlier start mean nothing", "they count", "G23",
		value("age.go", `f.Since.StartCount != c.ids.StartCount`, `false`)).or("TestAge"),
	aged("Q61", "a time is returned once a round is confirmed that began after it came", "the latest time is returned", "G23",
		value("age.go", `Freshness{p.proving, l.ages.commit}`, `Freshness{p.moment, l.ages.commit}`)).or("TestAge").must(),
	aged("Q62", "no age is proved before a commit of the leader's own term", "it is", "G23",
		value("age.go", `!c.committedOwn()`, `false`)).or("TestAge").must(),
	aged("Q63", "a quorum confirms the round of a proof", "the leader does not wait for it", "G23",
		value("age.go", `!c.confirmed(l.ages.round)`, `false`)).or("TestAge").must(),
	aged("Q64", "an age counts from the time that was sent", "it counts from the arrival of the proof", "G23",
		before("age.go", `c.proveAge(f)`, `f.Since.At = c.now.Mono`)).or("TestAge").must(),
	aged("Q65", "an age counts once its index is applied", "it counts at once", "G23",
		value("internal/pipeline/ages.go", `i >= 0 && a[i].Index > applied`, `false`)).must(),
	aged("Q66", "the age of the leader's state counts from the beginning of the round", "from its confirmation", "G23",
		value("age.go", `Moment{c.ids.StartCount, l.ages.began}`, `Moment{c.ids.StartCount, c.now.Mono}`)).or("TestAge").must(),
	aged("Q67", "a proof takes the commit index at the beginning of its round", "at its end", "tests",
		value("age.go", `Freshness{p.proving, l.ages.commit}`, `Freshness{p.proving, c.log.commit}`)).or("TestAge"),
	aged("Q68", "a time of a later start replaces those of an earlier one", "only one that is higher does", "tests",
		value("age.go", `m.StartCount > other.StartCount`, `m.StartCount > other.StartCount && m.At > other.At`)).or("TestAge"),
	aged("Q69", "a time that has not come yet is refused", "it ends the member", "tests",
		value("age.go", `f.Since.At > c.now.Mono`, `false`)).or("TestAge"),
	aged("Q70", "an earlier release is sent no ages and no times", "it is", "tests",
		value("age.go", `c.spokenBy(p).protocol >= ProtocolSessions`, `true`)).or("TestAge"),
	aged("Q71", "a leader proves ages with one round after another", "with the first one of its term alone", "tests",
		value("age.go", `l.ages.round != (RPCID{})`, `l.ages.commit > 0`)).or("TestAge"),
	leased("Q74", "the commit at the beginning of a round counts only after one of the leader's own term", "it counts if that one comes before the confirmation", "G23",
		value("age.go", `!c.committedOwn()`, `false`), value("age.go", `!c.confirmed(l.ages.round)`, `!c.committedOwn() || !c.confirmed(l.ages.round)`)).or("TestAge").must(),
	leased("Q75", "ages are proved by the round that begins", "by the one before", "G23",
		before("heartbeat.go", `l.round, l.beatAt = c.nextID(), c.now.Mono`, `c.beginAgeRound()`)).or("TestAge"),
	outsideOf("Q72", "a state that is too old is not served", "it is", "TestStale",
		value("node/stale.go", `age == 0 || age > maxAge`, `age == 0`)).arranged(),
	outsideOf("Q73", "a function that has waited for its turn sees no older state than its caller accepts", "it does", "TestStale",
		value("node/read.go", `maxAge > 0`, `false`)).arranged(),
}

// aged returns a mutant that was known when G23 was written.
func aged(id, rule, bug, expect string, edits ...Edit) Mutant {
	return mutant(id, rule, bug, expect, edits...).arranged()
}
