package main

import "testing"

// The ranks are those in tables of the sign test.
func TestIntervalRank_IsThatOfTheSignTest(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 0, 5: 0, 6: 1, 8: 1, 9: 2, 10: 2, 12: 3, 15: 4, 20: 6, 25: 8, 30: 10} {
		if got := intervalRank(n); got != want {
			t.Errorf("%d values: rank %d, want %d", n, got, want)
		}
	}
}

func TestEstimate_HasAnIntervalFromSixValuesOn(t *testing.T) {
	e := estimateOf([]float64{3, 1, 2, 6, 5, 4})
	if e.Median != 3.5 || e.Low != 1 || e.High != 6 {
		t.Errorf("got %+v", e)
	}
	e = estimateOf([]float64{3, 1, 2})
	if e.Median != 2 || e.known() {
		t.Errorf("got %+v", e)
	}
}

func TestRatios_AreThoseOfTheSameRound(t *testing.T) {
	got := ratios(map[int]float64{1: 10, 2: 30}, map[int]float64{2: 15, 3: 1})
	if len(got) != 1 || got[0] != 2 {
		t.Errorf("got %v", got)
	}
}
