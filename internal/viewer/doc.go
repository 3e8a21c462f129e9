// Package viewer draws what happened between a few nodes: a space-time diagram with a slider over its steps, in
// one self-contained HTML page that needs no network. It knows nothing about Raft. A caller builds a Diagram, or
// supplies a reader in JavaScript for diagrams in files.
//
//	model.go     Diagram, the input of a page: lanes, steps, messages, marks
//	page.go      Write: the page around the diagrams
//	assets/      the viewer itself: parts of one ES module, joined in the order of page.go
//	  model.js     rows, and what holds at a row
//	  canvas.js    the diagram; overview.js the whole run in one strip, under the slider
//	  panel.js     the chosen step, the nodes and their logs, the list of decisions
//	  viewer.js    one viewer: slider, keys, zoom, hash; page.js the page around one or two of them
//
// The data model, in short: a Lane is a node. A Step is what a node did at one moment; after it the node is in
// a State (a role: follower, leader, crashed), with a number (a term, an epoch), a few values, and possibly
// a log. The sentence of a step names the rule that acted. A Message goes from a lane to the step that received
// it, or is lost. A Mark is an event outside the nodes: a fault, a phase, a failure. A mark that lasts is drawn
// as a band: split brain, for example, is a mark with ToneBad and an end.
//
// A page shows one diagram, or several side by side (Page.Panes). If it holds more, the reader can choose one for each pane:
// Page.Axes names the choices ("algorithm", "scenario"), and Diagram.At gives the value of a diagram on each axis.
package viewer
