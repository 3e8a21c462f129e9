package powercut

import "os"

// Signal sends a signal to the serving process.
func (f *FS) Signal(s os.Signal) error { return f.server.Process.Signal(s) }
