//go:build race

package elections

func init() { // each run takes ten times as long
	followed = map[int]uint64{2: 1, 3: 2, 5: 1}
	planSeeds = 1
	fewer = 5
	tracedSize = 3
	forcedSizes = []int{3}
	safeSizes = []int{1, 2, 3, 5}
}
