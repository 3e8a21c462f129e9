package pipeline

import (
	"slices"

	"github.com/coxswain/raft"
)

// agesMax bounds what is kept of what was proved about the age of a state.
const agesMax = 16

// Ages is what was proved about the age of a member's state, oldest first. No method changes it, so readers need no lock.
type Ages []raft.Freshness

// With returns the ages together with a new one. It drops those that no longer matter once applied is applied. An FSM that
// lags may leave too many: then it drops the one without which the ages are spread most evenly over the lag.
func (a Ages) With(f raft.Freshness, applied raft.Index) Ages {
	from := max(a.newest(applied), 0)
	kept := append(append(make(Ages, 0, len(a)-from+1), a[from:]...), f)
	if len(kept) <= agesMax {
		return kept
	}
	least, gap := 0, raft.Time(0)
	for i := 1; i < len(kept)-1; i++ {
		if g := kept[i+1].Since.At - kept[i-1].Since.At; least == 0 || g < gap {
			least, gap = i, g
		}
	}
	return slices.Delete(kept, least, least+1)
}

// Since returns the latest time for which is proved that a state with applied applied contains everything that was
// committed by then. It returns 0 if nothing is proved.
func (a Ages) Since(applied raft.Index) raft.Time {
	if i := a.newest(applied); i >= 0 {
		return a[i].Since.At
	}
	return 0
}

// newest returns the position of the last age whose index is applied, or -1 if there is none.
func (a Ages) newest(applied raft.Index) int {
	i := len(a) - 1
	for i >= 0 && a[i].Index > applied {
		i--
	}
	return i
}
