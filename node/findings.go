package node

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coxswain/raft"
)

// findings returns Status.Findings, in the order of the table.
func findings(s *Status) (all []Finding) {
	members := s.Members
	if !slices.ContainsFunc(members, func(m MemberStatus) bool { return m.isSelf() }) {
		own := MemberStatus{Member: raft.Member{ID: s.ID}, State: "self", Connected: true} // it was removed or replaced
		own.judge(s)
		members = append(slices.Clip(members), own)
	}
	for i := range verdicts {
		v := &verdicts[i]
		if v.beside != nil {
			all = append(all, v.beside(s)...)
			continue
		}
		for j := range members {
			if m := &members[j]; m.Verdict == v.Name {
				all = append(all, Finding{v.Name, m.ID, m.Problem})
			}
		}
	}
	return all
}

// about returns a finding, or none if it says nothing.
func about(verdict string, member raft.NodeID, says string) []Finding {
	if says == "" {
		return nil
	}
	return []Finding{{verdict, member, says}}
}

func findsMajorityLost(s *Status) []Finding { return about("majority lost", "", s.MajorityLost) }

func findsNotBegun(s *Status) []Finding {
	if s.Err != nil || s.Wiped || s.Bootstrapped && s.Term > 0 {
		return nil
	}
	return about(VerdictNotBegun, "", s.LeaderReason)
}

// works reports whether the cluster has begun, and this member has not lost its part in it.
func (s *Status) works() bool {
	return s.Err == nil && !s.Wiped && s.Bootstrapped && s.Term > 0 && s.MajorityLost == ""
}

func findsNoQuorum(s *Status) []Finding {
	if h := weakerHalf(s); !s.works() || h.up >= h.quorum() {
		return nil
	}
	return about(VerdictNoQuorum, "", s.Tolerance)
}

func findsNoLeader(s *Status) []Finding {
	if h := weakerHalf(s); !s.works() || s.Leader != "" || h.up < h.quorum() {
		return nil
	}
	return about(VerdictNoLeader, "", s.LeaderReason)
}

func findsShortTimeout(s *Status) []Finding {
	if !s.works() {
		return nil
	}
	return about(VerdictTimeout, "", s.SlowElection)
}

func findsSettings(s *Status) (all []Finding) {
	for i := range s.Members {
		m := &s.Members[i]
		var texts []string
		for _, d := range m.Differs {
			if d.Setting != protocolSetting {
				texts = append(texts, d.String())
			}
		}
		all = append(all, about("settings differ", m.ID, strings.Join(texts, "; "))...)
	}
	return all
}

// findsSkew compares releases and protocols. A release that is not known differs from none.
func findsSkew(s *Status) (all []Finding) {
	for i := range s.Members {
		m := &s.Members[i]
		differs := slices.ContainsFunc(m.Differs, func(d SettingDifference) bool { return d.Setting == protocolSetting })
		if own := release(); !differs && (own == "" || m.Release == "" || own == m.Release) {
			continue
		}
		all = append(all, about("version skew", m.ID, fmt.Sprintf("it runs %s with version %d of the protocol, and this member %s with version %d",
			cmp.Or(m.Release, "a release that is not known"), m.Protocol, cmp.Or(release(), "a build without a version"), raft.ProtocolNewest))...)
	}
	return all
}

func findsSmallDisk(s *Status) []Finding { return about("small disk", s.ID, s.SmallDisk) }

func findsSnapshotFails(s *Status) []Finding {
	if s.Snapshot.Err == nil {
		return nil
	}
	return about("snapshot fails", s.ID, s.Snapshot.Err.Error())
}

func findsSlowDisk(s *Status) []Finding {
	if s.slowWrite == 0 {
		return nil
	}
	return about("disk slow", s.ID, fmt.Sprintf("half of its last %d writes to the disk took %v or longer, and the election timeout is %v",
		writesKept, s.slowWrite.Round(time.Millisecond), s.timeout))
}

func findsClockJump(s *Status) []Finding {
	if s.clockJump == 0 {
		return nil
	}
	by, way := s.clockJump, "forward"
	if by < 0 {
		by, way = -by, "back"
	}
	return about("clock jump", s.ID, fmt.Sprintf("its wall clock jumped %s by %v at %s", way, by.Round(time.Millisecond),
		s.clockJumpAt.UTC().Format(time.RFC3339)))
}
