//go:build race

package rafttest

func init() { soundSeeds, explains = 10, false } // each run takes ten times as long
