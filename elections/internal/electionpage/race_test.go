//go:build race

package electionpage

func init() { takeFewer() }
