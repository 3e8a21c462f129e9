package powercut

import "os"

// Signal sends a signal to the process that serves.
func (f *FS) Signal(s os.Signal) error { return f.server.Process.Signal(s) }
