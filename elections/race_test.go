//go:build race

package elections

func init() { takeFewer() }
