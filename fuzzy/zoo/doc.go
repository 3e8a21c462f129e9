// Package zoo collects known bugs of consensus code, to measure which of them the simulator finds.
//
// Each bug is a mutant: a small patch of the library, with the rule that it breaks and where it was seen in
// the wild. One build contains all mutants, through the overlay of the go command, so that the library itself
// needs no hooks; an environment variable selects one when the program runs. An anchor that no longer
// fits the library fails the build.
//
//	mutant.go catalogue_*.go    the mutants
//	absent.go                   bugs of features that the library does not have yet
//	overlay.go build.go         the patched sources, and the program built from them
//	hunt.go hunt/               runs seeds of the simulator until one kills the mutant
//	scoreboard.go command.go    which mutants were killed, by what, and how soon
//
// In the build of the zoo the library's own assertions are off, so that only the simulator can kill a mutant. They are on
// for a mutant whose rule the unit tests check.
package zoo
