// Package zoo keeps known bugs of consensus code, to find out which of them the simulator would have caught.
//
// Each bug is a mutant: a small patch of the library, with the rule that it breaks and where it was seen in
// the wild. All mutants go into one build, by the overlay of the go command, so that the library itself
// carries no hooks; an environment variable chooses one when the program runs. An anchor that no longer
// fits the library fails the build.
//
//	mutant.go catalogue_*.go    the mutants
//	absent.go                   bugs that the library has nothing for yet
//	overlay.go build.go         the patched sources, and the program made of them
//	hunt.go hunt/               seeds of the simulator until one kills the mutant
//	scoreboard.go command.go    who was killed, by what, and how soon
//
// In the build of the zoo the library's own assertions are off: a kill is the simulator's. They are on for a
// mutant whose rule the unit tests keep.
package zoo
