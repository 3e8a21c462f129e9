//go:build race

package fuzzy

func init() { jitters = 10 } // each run takes ten times as long
