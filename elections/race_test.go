//go:build race

package elections

func init() { // each run takes ten times as long
	followed = map[int]uint64{2: 1, 3: 2, 5: 1}
	planSeeds = 1
}
