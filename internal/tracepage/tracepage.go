// Package tracepage makes a viewer page from a trace of a simulated run, or from the trace events that nodes wrote to
// files. The page can open other such files. Only reader.js turns them into diagrams.
package tracepage

import (
	_ "embed"
	"io"

	"github.com/coxswain/raft/internal/viewer"
)

//go:embed reader.js
var reader string

// Write writes a page that shows one trace, or the trace events of one or more nodes.
func Write(w io.Writer, title string, files ...*File) error {
	p := viewer.Page{
		Title:   title,
		Text:    "Step through it with the arrow keys, or drag the slider; Help explains the rest.",
		Readers: []string{reader},
	}
	for _, f := range files {
		p.Files = append(p.Files, viewer.File{Name: f.Name, Text: f.Text})
	}
	return viewer.Write(w, p)
}
