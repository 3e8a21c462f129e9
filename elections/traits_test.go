package elections

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The known traits of the classics: how each breaks, and how that ends.

// classics are the algorithms without a majority.
var classics = []*Algorithm{
	bullyThreeStep, bullyCascading, bullyQuality, nextInLineFailover, candidateOrdinary, invitationAlgorithm,
	ringCollecting, ringMaximum, ringChangRoberts,
}

func TestTrait_EachPartOfAPartitionElectsALeaderAndAHealEndsThat(t *testing.T) {
	for _, a := range classics {
		t.Run(a.Name, func(t *testing.T) {
			s := elected(t, a, 5)
			s.split(3) // {1, 2}, {3, 4, 5}
			s.pass(2 * time.Second)
			require.Len(t, s.inOffice(), 2, "split brain: a minority elects, too")
			held := s.leaders()
			assert.Equal(t, held[1], held[2], "the minority is of one mind")
			assert.Equal(t, held[3], held[4], "and so is the majority")
			assert.Equal(t, held[3], held[5])

			s.heal()
			s.pass(2 * time.Second)
			require.Len(t, s.inOffice(), 1, "the leaders hear each other, and one remains")
			s.requireAll(s.inOffice()[0])
		})
	}
}

func TestTrait_ThreePartsHaveThreeLeaders(t *testing.T) {
	for _, a := range classics {
		t.Run(a.Name, func(t *testing.T) {
			s := elected(t, a, 9)
			s.split(4, 7)
			s.pass(3 * time.Second)
			assert.Len(t, s.inOffice(), 3)
			s.heal()
			s.pass(3 * time.Second)
			require.Len(t, s.inOffice(), 1)
			s.requireAll(s.inOffice()[0])
		})
	}
}

// A flapping high rank causes permanent re-election: it is elected at every return. There are three exceptions. With
// invitations, the returning member joins a larger group and follows its leader. With qualities, each restart lowers the
// quality of the member's host, so the member follows. In candidate/ordinary, the returning member follows if it hears a
// heartbeat before its δ is over. The highest rank's δ is half a heartbeat interval, and in this test a heartbeat comes in
// time.
func TestTrait_AFlappingHighestRankIsElectedAtEachReturn(t *testing.T) {
	for _, row := range []struct {
		a     *Algorithm
		again bool
	}{
		{bullyThreeStep, true}, {bullyCascading, true}, {nextInLineFailover, true},
		{ringCollecting, true}, {ringMaximum, true}, {ringChangRoberts, true},
		{candidateOrdinary, false}, {invitationAlgorithm, false}, {bullyQuality, false},
	} {
		t.Run(row.a.Name, func(t *testing.T) {
			s := elected(t, row.a, 5)
			changes, leader := 0, s.inOffice()[0]
			note := func() {
				s.pass(2 * time.Second)
				require.Len(t, s.inOffice(), 1)
				if now := s.inOffice()[0]; now != leader {
					changes, leader = changes+1, now
				}
			}
			for range 10 {
				s.crash(5)
				note()
				s.restart(5)
				note()
			}
			if row.again {
				assert.Equal(t, 20, changes, "every crash and every return changes the leader")
			} else {
				assert.LessOrEqual(t, changes, 1, "only the first crash does, if it hit the leader")
			}
		})
	}
}

// Crashes during the election are tolerated.
func TestTrait_TheNextLeaderMayCrashWhileItTakesOver(t *testing.T) {
	for _, a := range classics {
		t.Run(a.Name, func(t *testing.T) {
			s := elected(t, a, 9)
			for range 3 {
				s.crash(s.inOffice()[0])
				for i := 0; len(s.inOffice()) == 0; i++ {
					require.Less(t, i, 3000, "a leader takes over")
					s.pass(time.Millisecond)
				}
			}
			s.pass(2 * time.Second)
			require.Len(t, s.inOffice(), 1)
			s.requireAll(s.inOffice()[0])
		})
	}
}

// A returning member displaces a working leader only if it has the highest rank alive.
func TestTrait_ALowerRankThatComesBackDisplacesNobody(t *testing.T) {
	for _, a := range classics {
		t.Run(a.Name, func(t *testing.T) {
			s := elected(t, a, 5)
			leader := s.inOffice()[0]
			s.crash(2)
			s.pass(time.Second)
			s.restart(2)
			s.pass(time.Second)
			s.requireAll(leader)
		})
	}
}

// A next in line that is asked leads without asking whether a higher rank lives.
func TestTrait_NextInLineDoesNotElectTheHighest(t *testing.T) {
	s := elected(t, nextInLineFailover, 5)
	s.crash(4)
	s.crash(3)
	s.crash(5)
	s.pass(time.Second)
	s.requireAll(2)
	s.restart(3)
	s.pass(time.Second)
	s.requireAll(3)
	s.restart(4)
	s.up = func(from, to Rank) bool { return from != 4 && to != 4 } // 4 comes back unheard, and leads itself
	s.pass(time.Second)
	s.crash(3)
	s.pass(time.Second)
	assert.Equal(t, []Rank{2, 4}, s.inOffice())
	s.heal()
	s.pass(time.Second)
	s.requireAll(4)
}

// A message of another algorithm, or of a broken member, changes nothing and does no harm.
func TestTrait_AStrangersMessageIsIgnored(t *testing.T) {
	for _, a := range classics {
		t.Run(a.Name, func(t *testing.T) {
			s := elected(t, a, 3)
			leader := s.inOffice()[0]
			for r := Rank(1); r <= 3; r++ {
				for from := Rank(1); from <= 3; from++ {
					if from != r {
						s.machines[r].Receive(s.envs[r], from, signal("NONSENSE"))
						s.machines[r].Receive(s.envs[r], from, stranger{})
					}
				}
			}
			assert.Empty(t, s.sent)
			s.requireAll(leader)
		})
	}
}

// stranger is a message of no algorithm. It cannot be compared.
type stranger struct{ _ []int }

func (stranger) Kind() string { return "STRANGER" }
func (stranger) Bytes() int   { return HeaderBytes }

// The same seed gives the same messages in the same order.
func TestTrait_ARunIsDeterministic(t *testing.T) {
	for _, a := range classics {
		t.Run(a.Name, func(t *testing.T) {
			run := func() string {
				s := newStage(t, a, 9)
				s.pass(time.Second)
				s.crash(9)
				s.pass(time.Second)
				return s.steps()
			}
			first := run()
			require.NotEmpty(t, first)
			assert.Equal(t, first, run())
		})
	}
}
