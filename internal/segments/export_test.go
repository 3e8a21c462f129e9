package segments

// Closing reports whether Close has begun.
func (l *Log) Closing() bool { return l.closing.Load() }
