package raft

import "fmt"

// This file holds the versions of the application: which version each member runs, and the lowest that may run.
//
// Members tell the leader their versions in their answers to heartbeats. The leader raises the minimum of the configuration by
// what all members have told it in its own term. It takes nothing from the configuration or from an earlier leader: a member
// may have gone back to an earlier program since.

// AppVersionError says that a program is older than the cluster allows: every entry may need version Min, which all members
// have run. Start a program whose Config.AppVersion is at least Min. The data is as before.
//
// It ends a node, or refuses its start, before the FSM is touched. It also refuses to add, replace or promote a member.
type AppVersionError struct {
	ID  NodeID // the member that runs the program
	Own uint64 // the version of that program, 0: it has none
	Min uint64 // the minimum of the cluster
}

func (e *AppVersionError) Error() string {
	return fmt.Sprintf("raft: %s runs version %d of the application, and the cluster needs at least version %d: start a program of that version "+
		"or a later one there (Config.AppVersion); nothing is lost", e.ID, e.Own, e.Min)
}

// Outdated returns the error that must end this member, because the configuration in force needs a newer program; nil if it
// does not. A loop reads it after each Step. The core has the FSM apply and restore nothing from then on. Outdated allocates
// nothing unless there is an error.
func (c *Core) Outdated() *AppVersionError {
	if !c.outdated() {
		return nil
	}
	return &AppVersionError{c.self.ID, c.cfg.AppVersion, c.config().AppVersionMin}
}

func (c *Core) outdated() bool { return c.config().AppVersionMin > c.cfg.AppVersion }

// raiseAppVersion raises the minimum to the lowest version that a member runs. It needs a recent answer of every member: a
// member that is silent may have gone back to an earlier program.
func (c *Core) raiseAppVersion(config Configuration) {
	least := c.cfg.AppVersion
	for _, m := range config.Members {
		least = min(least, c.appVersionOf(m.Peer()))
	}
	if least <= config.AppVersionMin {
		return
	}
	next := config
	next.Members = append([]Member(nil), config.Members...)
	for i := range next.Members {
		next.Members[i].AppVersion = c.appVersionOf(next.Members[i].Peer())
	}
	next.AppVersionMin, next.Level = least, max(next.Level, featureLevelAppVersions)
	if c.membersOnOlderProtocol(next).kind == 0 {
		c.appendConfig(next)
		c.leader.change.raised = c.log.Last.Index
	}
}

// appVersionOf returns the version that a member has told this leader, if the leader hears the member now; else 0.
func (c *Core) appVersionOf(peer Peer) uint64 {
	if peer == c.self {
		return c.cfg.AppVersion
	}
	if p := c.leader.peer(peer); p != nil && p.state != stale && p.versioned && c.heardLately(p) {
		return p.appVersion
	}
	return 0
}

// promotesOutdated refuses a configuration that is to make a member a voter although it has told this leader that it runs a
// program below the minimum. Its log does not reach the configuration that raised the minimum yet.
func (c *Core) promotesOutdated(next Configuration) refusal {
	for _, m := range next.Members {
		p := c.leader.peer(m.Peer())
		if m.Next == NextVoter && p != nil && p.versioned && p.appVersion < next.AppVersionMin {
			return refusal{kind: RefusedAppVersion, concerns: []NodeID{m.ID}, appVersion: p.appVersion}
		}
	}
	return refusal{}
}

// appVersionProblems checks the versions. They stand in the configuration once there is a minimum.
func (c Configuration) appVersionProblems(p *problems) {
	if c.AppVersionMin > 0 && c.Level < featureLevelAppVersions {
		p.add("its lowest version of the application is %d at feature level %d; versions begin with level %d",
			c.AppVersionMin, c.Level, featureLevelAppVersions)
	}
	for _, m := range c.Members {
		switch {
		case m.AppVersion < c.AppVersionMin:
			p.add("member %q runs version %d of the application, below the minimum %d", m.ID, m.AppVersion, c.AppVersionMin)
		case m.AppVersion > 0 && c.AppVersionMin == 0:
			p.add("member %q has version %d of the application, and there is no minimum: leave it 0, members tell their versions themselves", m.ID, m.AppVersion)
		}
	}
}
