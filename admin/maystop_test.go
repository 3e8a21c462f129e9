package admin_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/node"
)

// told is an admin.Ask for members that answer with what they say about others, each "a b verdict". The first one leads.
func told(leader string, voters []string, silent string, says ...string) ([]string, admin.Ask) {
	var urls []string
	for _, id := range voters {
		urls = append(urls, "http://"+id)
	}
	return urls, func(_ context.Context, url string) (admin.Status, error) {
		id := strings.TrimPrefix(url, "http://")
		if strings.Contains(silent, id) {
			return admin.Status{}, errors.New("connection refused")
		}
		s := admin.Status{ID: id, Bootstrapped: true, Term: 2, Leader: leader, Role: "follower"}
		if id == leader {
			s.Role = "leader"
		}
		for _, other := range voters {
			m := admin.MemberStatus{ID: other, URL: "http://" + other, Kind: "voter", Connected: true, Match: 9}
			for _, text := range says {
				if verdict, about := strings.CutPrefix(text, id+" "+other+" "); about {
					m.Verdict, m.Problem = verdict, verdict
					m.Connected = verdict != node.VerdictNotConnected || id == other
					s.Findings = append(s.Findings, admin.Finding{Verdict: verdict, Member: other, Says: verdict})
				}
			}
			s.Members = append(s.Members, m)
		}
		for _, text := range says {
			if verdict, whole := strings.CutPrefix(text, id+" - "); whole {
				s.Findings = append(s.Findings, admin.Finding{Verdict: verdict, Says: verdict})
			}
		}
		return s, nil
	}
}

// A majority that is left needs a voter that reaches a majority.
func TestMayStop_SomeVoterThatIsLeftReachesAMajority(t *testing.T) {
	three, five := []string{"n1", "n2", "n3"}, []string{"n1", "n2", "n3", "n4", "n5"}
	for _, row := range []struct {
		rule   string
		voters []string
		silent string
		cut    []string
		stop   string
		want   string // "": it may be stopped
	}{
		{"all links work", three, "", nil, "n1", ""},
		{"the leader is the only one that reaches both", three, "", []string{"n2 n3", "n3 n2"}, "n1", "without n1, n2 and n3 do not reach each other"},
		{"one direction is enough", three, "", []string{"n3 n2"}, "n1", "without n1, n2 and n3 do not reach each other"},
		{"the other end does not answer", three, "n3", []string{"n2 n3"}, "n1", "without n1, n2 and n3 do not reach each other"},
		{"the leader stays", three, "", []string{"n2 n3", "n3 n2"}, "n3", ""},
		{"one of four reaches two others", five, "", []string{"n2 n3", "n4 n5"}, "n1", ""},
		{"no one of four reaches two others", five, "", []string{"n2 n3", "n2 n4", "n3 n5", "n4 n5", "n3 n4"}, "n1",
			"without n1, n2 and n3, n2 and n4, n3 and n4, n3 and n5, n4 and n5 do not reach each other"},
	} {
		var says []string
		for _, pair := range row.cut {
			says = append(says, pair+" "+node.VerdictNotConnected)
		}
		urls, ask := told("n1", row.voters, row.silent, says...)
		s := admin.MayStop(t.Context(), row.stop, urls, ask)
		assert.Equal(t, row.want == "", s.May, "%s: %s", row.rule, s.Says)
		if row.want != "" {
			assert.Equal(t, row.want, s.Says, row.rule)
		}
	}
}

// What is made by a leader cannot be the first step while there is none.
func TestDiagnose_AnOutageComesBeforeWhatNeedsALeader(t *testing.T) {
	for _, row := range []struct{ verdict, first string }{
		{"older image", node.VerdictNoQuorum},
		{"emptied disk", node.VerdictNoQuorum},
		{"lost entries", node.VerdictNoQuorum},
		{"disk stalled", "disk stalled"}, // with that repaired, the cluster serves
	} {
		urls, ask := told("", []string{"n1", "n2", "n3"}, "n3", "n2 n2 "+row.verdict, "n1 - "+node.VerdictNoQuorum, "n1 n3 "+node.VerdictNotConnected)
		d := admin.Diagnose(t.Context(), urls, ask)
		assert.Equal(t, row.first, d.Verdict, "%s: %+v", row.verdict, d.Findings)
		urls, ask = told("n1", []string{"n1", "n2", "n3"}, "", "n1 n3 "+row.verdict)
		assert.Equal(t, row.verdict, admin.Diagnose(t.Context(), urls, ask).Verdict, "with a leader")
	}
}
