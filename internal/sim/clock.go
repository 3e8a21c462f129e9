package sim

// Clock is the clock of one machine. The zero value shows true time.
type Clock struct {
	since   Time  // true time of the last change
	local   Time  // local time of the last change
	drift   int64 // millionths by which it is too fast
	stopped bool
	wall    int64   // offset of the wall clock
	past    []Clock // the clock before each change
}

// Local returns the local time, which never decreases.
func (c *Clock) Local(now Time) Time {
	if c.stopped {
		return c.local
	}
	d := int64(now - c.since)
	return c.local + Time(d+d/Million*c.drift+d%Million*c.drift/Million)
}

// Shows returns the true time at which the clock will show the local time. The true time is not before now. If the clock is
// stopped, Shows returns Never.
func (c *Clock) Shows(local, now Time) Time {
	if c.Local(now) >= local {
		return now
	}
	if c.stopped {
		return Never
	}
	d, rate := int64(local-c.local), Million+c.drift
	if d > int64(Never)/4 {
		return Never
	}
	return max(now, c.since+Time(d/rate*Million+d%rate*Million/rate)+1)
}

// Showed returns the local time at an earlier true time.
func (c *Clock) Showed(then Time) Time {
	at := c
	for i := len(c.past) - 1; i >= 0 && then < at.since; i-- {
		at = &c.past[i]
	}
	return at.Local(then)
}

// Wall returns the wall-clock time. It follows the clock, and can jump.
func (c *Clock) Wall(now Time) int64 { return int64(c.Local(now)) + c.wall }

// SetDrift makes the clock run too fast by this many millionths. If the number is negative, the clock runs too slowly.
func (c *Clock) SetDrift(now Time, millionths int64) {
	c.settle(now)
	c.drift = millionths
}

// Stop stops the clock, as if the machine were suspended.
func (c *Clock) Stop(now Time) {
	c.settle(now)
	c.stopped = true
}

// Resume restarts the clock.
func (c *Clock) Resume(now Time) {
	c.settle(now)
	c.stopped = false
}

// Jump changes only the wall clock.
func (c *Clock) Jump(by int64) { c.wall += by }

func (c *Clock) settle(now Time) {
	before := *c
	before.past = nil
	c.past = append(c.past, before)
	c.local = c.Local(now)
	c.since = now
}
