package screen

import (
	"os"

	"golang.org/x/sys/windows"
)

// enableSequences makes the console understand the escape sequences that move the cursor.
func enableSequences(out *os.File) error {
	var mode uint32
	console := windows.Handle(out.Fd())
	if err := windows.GetConsoleMode(console, &mode); err != nil {
		return err
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING)
}
