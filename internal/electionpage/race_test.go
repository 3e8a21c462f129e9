//go:build race

package electionpage

func init() { // each run takes ten times as long, and nothing but the comparison has several goroutines
	comparedSeeds = 1
	followedSeeds = 1
}
