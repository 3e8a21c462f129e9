package elections

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		takeFewer()
	}
	os.Exit(m.Run())
}

// takeFewer gives every test fewer or smaller runs. It is for -short, and for the race detector, under which each run takes
// ten times as long.
func takeFewer() {
	followed = map[int]uint64{2: 1, 3: 2, 5: 1}
	planSeeds = 1
	fewer = 5
	tracedSize = 3
	forcedSizes = []int{3}
	safeSizes = []int{1, 2, 3, 5}
}
