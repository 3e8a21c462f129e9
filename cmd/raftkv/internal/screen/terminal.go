package screen

import (
	"context"
	"io"
	"os"

	"golang.org/x/term"
)

var sizeDefault = size{120, 40}

// keyboard delivers pressed keys one by one, without waiting for the end of a line.
type keyboard struct {
	keys    chan byte // nil without a terminal
	restore func()
}

// openTerminal puts the terminal into raw mode if both in and out are terminals.
func openTerminal(ctx context.Context, in io.Reader, out io.Writer) (*screen, keyboard) {
	plain := &screen{out: out}
	keys, ok := in.(*os.File)
	display, ok2 := out.(*os.File)
	if !ok || !ok2 || !term.IsTerminal(int(keys.Fd())) || !term.IsTerminal(int(display.Fd())) {
		return plain, keyboard{restore: func() {}}
	}
	before, err := term.MakeRaw(int(keys.Fd()))
	if err != nil || enableSequences(display) != nil {
		return plain, keyboard{restore: func() {}}
	}
	measure := func() size {
		if w, h, err := term.GetSize(int(display.Fd())); err == nil && w > 0 && h > 0 {
			return size{w, h}
		}
		return sizeDefault
	}
	k := keyboard{keys: make(chan byte), restore: func() { _ = term.Restore(int(keys.Fd()), before) }}
	go k.read(ctx, keys)
	dull := os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
	return &screen{out: out, live: true, dull: dull, size: measure}, k
}

// read delivers keys until the context or the input ends. If read waits for a key, that wait ends only with the process. Keys
// such as the arrows send several bytes at once, which begin with Escape and end with a letter: they have no effect.
func (k keyboard) read(ctx context.Context, in io.Reader) {
	const escape = 27
	var typed [64]byte
	for {
		n, err := in.Read(typed[:])
		if err != nil {
			return
		}
		if n > 0 && typed[0] == escape {
			continue
		}
		for _, key := range typed[:n] {
			select {
			case k.keys <- key:
			case <-ctx.Done():
				return
			}
		}
	}
}
