//go:build !unix

package main

import "time"

var started = time.Now()

// cpuTime is the time on the wall where the system does not tell better.
func cpuTime() time.Duration { return time.Since(started) }
