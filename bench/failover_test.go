package main

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"testing"
)

func TestFailovers_CountEachKill(t *testing.T) {
	if testing.Short() {
		t.Skip("it kills real processes for some seconds")
	}
	f := failovers{kills: 2, replicas: 3, dir: t.TempDir()}
	f.choose(regexp.MustCompile("^coxswain-segments$"))
	if err := f.run(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := f.print(&out, true); err != nil {
		t.Fatal(err)
	}
	var rows []failoverRow
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].Times.Count != 2 || rows[0].Times.Median <= 0 {
		t.Errorf("%s", out.String())
	}
}
