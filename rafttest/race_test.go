//go:build race

package rafttest

func init() { soundSeeds, explains = 10, false } // with -race each run takes ten times as long
