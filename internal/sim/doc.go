// Package sim is a kernel for simulations that a seed reproduces. It has virtual time, random streams, and a network,
// clocks and processes that misbehave as real ones do. It knows nothing about what is simulated.
//
// One goroutine runs a simulation:
//
//	Queue    what happens next: events ordered by time, then by when they were pushed
//	Stream   random numbers, one stream for each concern, so that removing one fault moves no other
//	Network  delivers, loses, doubles, delays, reorders, misdelivers and corrupts; Links are its cuts
//	Clock    one machine's clock: it drifts, and stops while the machine is suspended
//	Outage   what happens to processes: crashes, power cuts, crash loops, pauses, slowness
//
// No decision depends on map order, a clock, a float or a pointer.
package sim
