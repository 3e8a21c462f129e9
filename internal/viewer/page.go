package viewer

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
)

// Page is one HTML file.
type Page struct {
	Title    string
	Text     string   // a sentence below the title
	Axes     []string // the criteria by which the reader chooses a diagram; see Diagram.At
	Shared   string   // axis on which all panes show the same value, if any
	Start    string   // URL fragment of the initial place, without a link to another one
	Panes    int      // number of diagrams side by side; 0 means 1
	Diagrams []Diagram
	Files    []File            // files that one of the readers opens together with the page
	Readers  []string          // scripts that make diagrams of files: see addReader in assets/page.js
	About    map[string][]Fact // facts about the diagrams, by value on an axis
	Lead     template.HTML     // shown before the diagrams: a tour
	Body     template.HTML     // shown after them: charts, tables
}

// Fact is a named statement; a name is for example "Source".
type Fact struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// File is a file for one of the readers.
type File struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

//go:embed assets
var assets embed.FS

// parts are the files of the module, in the order in which they are joined.
var parts = []string{"model.js", "look.js", "canvas.js", "overview.js", "panel.js", "viewer.js", "page.js"}

// data is the input of the scripts.
type data struct {
	Axes     []string          `json:"axes,omitempty"`
	Shared   string            `json:"shared,omitempty"`
	Start    string            `json:"start,omitempty"`
	About    map[string][]Fact `json:"about,omitempty"`
	Panes    int               `json:"panes"`
	Diagrams []Diagram         `json:"diagrams"`
	Files    []File            `json:"files,omitempty"`
}

// Write writes the page. It compresses the data, because compression reduces a trace to a tenth of its size.
func Write(w io.Writer, p Page) error {
	frame, err := template.ParseFS(assets, "assets/page.html")
	if err != nil {
		return fmt.Errorf("viewer: %w", err)
	}
	style, script := asset("viewer.css"), ""
	for _, name := range parts {
		script += asset(name) + "\n"
	}
	for _, reader := range p.Readers {
		script += reader + "\n"
	}
	packed, err := pack(data{p.Axes, p.Shared, p.Start, p.About, max(p.Panes, 1), append([]Diagram{}, p.Diagrams...), p.Files})
	if err != nil {
		return fmt.Errorf("viewer: %w", err)
	}
	return frame.Execute(w, map[string]any{
		"Title": p.Title, "Text": p.Text, "Lead": p.Lead, "Body": p.Body, "Data": template.HTML(packed), "Readers": len(p.Readers) > 0,
		"Style": template.CSS(style), "Script": template.JS(script + "start();\n"),
	})
}

// asset returns an embedded file.
func asset(name string) string {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // the names are constants of this file
	}
	return string(text)
}

// pack encodes data as one word without characters that are special in HTML.
func pack(d data) (string, error) {
	var b bytes.Buffer
	encoded := base64.NewEncoder(base64.StdEncoding, &b)
	z := gzip.NewWriter(encoded)
	if err := json.NewEncoder(z).Encode(d); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	err := encoded.Close()
	return b.String(), err
}
