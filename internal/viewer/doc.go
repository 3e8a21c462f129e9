// Package viewer draws what happened between a few nodes: a space-time diagram with a slider over its steps, in
// one self-contained HTML page that needs no network. It knows nothing about Raft. A caller builds a Diagram; a
// caller with diagrams in files supplies a reader in JavaScript.
//
//	model.go     Diagram: lanes, steps, messages, marks; what a page is told
//	page.go      Write: the page around the diagrams
//	assets/      the viewer itself: parts of one ES module, joined in the order of page.go
//	  model.js     rows, and what holds at a row
//	  canvas.js    the diagram; overview.js the whole run in one strip, under the slider
//	  panel.js     the chosen step, the nodes and their logs, the list of decisions
//	  viewer.js    one viewer: slider, keys, zoom, hash; page.js the page around one or two of them
//
// The data model, in short: a Lane is a node. A Step is what a node did at one moment; after it the node is in
// a State (a role: follower, leader, crashed), with a number (a term, an epoch), a few values, and, if there is
// one, a log. The sentence of a step is the rule that acted. A Message goes from a lane to the step that took
// it, or is lost. A Mark is an event of the world: a fault, a phase, a failure. A mark that lasts is drawn as a
// band: split brain, for one, is a mark with ToneBad and an end.
//
// A page shows one diagram, or several side by side (Page.Panes). If it holds more, each pane lets
// the reader choose one: Page.Axes names the choices ("algorithm", "scenario"), and Diagram.At says
// where on each axis a diagram stands.
package viewer
