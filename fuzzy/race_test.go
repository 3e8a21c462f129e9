//go:build race

package fuzzy

func init() { thrift = 4 } // each run takes ten times as long, and is one goroutine, which cannot race
