package zoo

// appVersions: the versions of the application, and the lowest that may run.
var appVersions = []Mutant{
	member("Q50", "the minimum waits for members that are silent", "what they told before they fell silent counts", "N101",
		value("appversion.go", `c.heardLately(p)`, `true`)).or("AppVersion_TheMinimumWaits"),
	member("Q51", "the minimum waits for every member", "learners do not count", "N9, N101",
		value("appversion.go", `c.appVersionOf(m.Peer())`, `map[bool]uint64{true: least, false: c.appVersionOf(m.Peer())}[m.Kind == Learner]`)).or("AppVersion_NoMinimum"),
	member("Q52", "an outdated member applies nothing", "it applies what is committed until it ends", "N100",
		value("commit.go", `c.outdated()`, `false`)).or("AppVersion_AnOutdated"),
	member("Q53", "an outdated program does not start", "it starts, and ends later", "N100",
		value("raft.go", `c.Outdated()`, `(*AppVersionError)(nil)`)).or("AppVersion_AnOutdated"),
	member("Q54", "no member joins with a program below the minimum", "it joins, and ends", "N69",
		value("change.go", `m.AppVersion < d.AppVersionMin`, `false`)).or("AppVersion_MembersBelow"),
	member("Q55", "no outdated member is promoted", "it is, and ends once it has caught up", "tests",
		value("appversion.go", `p.appVersion < next.AppVersionMin`, `false`)).or("AppVersion_MembersBelow"),
	member("Q56", "a leader forgets what a member has told when its connection breaks", "the program before the restart still counts", "tests",
		instead("replicate.go", `p.versioned = false // another program may answer next`, ``)).or("AppVersion_TheMinimumWaits"),
	mutant("Q57", "a node whose program is too old ends", "it runs on, and applies nothing", "tests",
		value("node/marks.go", `n.core.Outdated()`, `(*raft.AppVersionError)(nil)`)).arranged().outside("node", "AppVersion_ARunning"),
}
