// Package electionpage makes the page of the election lab: one HTML file that needs no network. It shows
// any two algorithms side by side in one scenario, as space-time diagrams, and charts of all measures.
//
//	story.go    the records of a run, read into what each member did, what happened to all, and who led when
//	fold.go     which steps are drawn: what only repeats is left out
//	split.go    split brain: which members led at once, for how long, and what is said of it
//	diagram.go  the story as a diagram of internal/viewer
//	page.go     Write: the runs that are shown, the diagrams, what is said about each algorithm
//	tour.go     the guided tour: where to look first
//	charts.go   the numbers of the charts; assets/charts.js draws them
package electionpage
