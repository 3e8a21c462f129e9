package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/internal/tracepage"
	"github.com/coxswain/raft/internal/usage"
)

// trace is the command "raftlab trace".
type trace struct {
	format, path, mutant string
	from                 []string
	all                  bool
}

func newTrace() *cobra.Command {
	t := &trace{}
	cmd := &cobra.Command{
		Use:   "trace SEED|CASE | --from FILE...",
		Short: "Write everything that happens in the run of one seed or case, or show a recorded file",
		Long: `trace runs one seed or case and writes everything that happens, as text, as NDJSON (one JSON object a line), or as
one HTML page that draws it and needs no network. With --from it runs nothing and shows a file: a trace that was
written as NDJSON, or the trace events of nodes (trace.ndjson in a raftkv member's data directory), one file per node.`,
		Example: `  raftlab trace f10.swarm.2a --format html --out page.html
  raftlab trace --from trace.ndjson --format html --out page.html
  raftlab trace --from n1/trace.ndjson,n2/trace.ndjson --format html --out page.html`,
		Args: usage.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return t.run(cmd, args) },
	}
	mutantFlag(cmd, &t.mutant)
	cmd.Flags().StringVar(&t.format, "format", "text", "text, ndjson, or html")
	cmd.Flags().StringVar(&t.path, "out", "", "the file to write; default: standard output")
	cmd.Flags().StringSliceVar(&t.from, "from", nil, "files to show instead of running a seed: traces, or trace events")
	cmd.Flags().BoolVar(&t.all, "all", false, "in text, show every step and every message, not only decisions")
	return cmd
}

func (t *trace) run(cmd *cobra.Command, args []string) error {
	out := cmd.OutOrStdout()
	if t.format != "text" && t.format != "ndjson" && t.format != "html" {
		return fmt.Errorf("--format %q: there are text, ndjson and html; %w", t.format, usage.Err)
	}
	if len(args)+min(len(t.from), 1) != 1 {
		return fmt.Errorf("trace takes a seed, a case file or --from FILE, one of them; %w", usage.Err)
	}
	if len(t.from) > 0 && t.mutant != "" {
		return fmt.Errorf("--mutant %s: --from runs nothing; leave one of them out; %w", t.mutant, usage.Err)
	}
	if len(t.from) > 0 {
		files, err := readFiles(t.from)
		if err != nil {
			return err
		}
		return t.write(out, func(w io.Writer) error { return t.show(w, files) })
	}
	run, elsewhere, err := aim(cmd, args[0], t.mutant)
	if err != nil || elsewhere {
		return err
	}
	return t.write(out, func(w io.Writer) error { return t.trace(w, &run) })
}

// write calls a function that writes to the file, or to out.
func (t *trace) write(out io.Writer, write func(io.Writer) error) (err error) {
	if t.path != "" {
		file, failed := os.Create(t.path)
		if failed != nil {
			return fmt.Errorf("--out: %w", failed)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out = file
	}
	buffered := bufio.NewWriterSize(out, 1<<20)
	err = write(buffered)
	return errors.Join(err, buffered.Flush())
}

// trace runs a seed or case. Its output is complete even if the run fails.
func (t *trace) trace(w io.Writer, run *target) error {
	tracer := fuzzy.NDJSON(w)
	var lines bytes.Buffer
	switch t.format {
	case "text":
		tracer = fuzzy.Text(w, t.all)
	case "html":
		tracer = fuzzy.NDJSON(&lines)
	}
	result := fuzzy.RunCase(&run.Case, tracer)
	var err error
	if t.format == "html" {
		err = tracepage.Write(w, "Run of "+run.name, &tracepage.File{Name: run.name, Text: lines.String()})
	}
	return errors.Join(err, run.verdict(result))
}

func readFiles(paths []string) ([]*tracepage.File, error) {
	var files []*tracepage.File
	for _, path := range paths {
		file, err := tracepage.Read(path)
		if err != nil {
			return nil, fmt.Errorf("--from: %w", err)
		}
		files = append(files, file)
	}
	return files, nil
}

// show writes files in another format.
func (t *trace) show(w io.Writer, files []*tracepage.File) error {
	for _, file := range files {
		var err error
		switch t.format {
		case "text":
			err = file.Print(w, t.all)
		case "ndjson":
			_, err = io.WriteString(w, file.Text)
		}
		if err != nil {
			return err
		}
	}
	if t.format != "html" {
		return nil
	}
	title := filepath.Base(files[0].Name)
	if len(files) > 1 {
		title = fmt.Sprintf("%s and %d more", title, len(files)-1)
	}
	return tracepage.Write(w, title, files...)
}
