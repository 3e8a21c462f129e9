//go:build invariants

package fuzzy

func init() { thrift = 1 }
