//go:build race

package upgrade_test

func init() { underRace = true }
