package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestShow_TheScreenAsItLooksInTheEnd(t *testing.T) {
	for written, want := range map[string][]string{
		"a\r\nb\r\n":                               {"a", "b"},
		"\r\na\n\n":                                {"a"},
		"event\r\nlive 1\r\nlive 2\r\n":            {"event", "live 1", "live 2"},
		"1\r\n2\r\n\x1b[2A\x1b[Jevent\r\n3\r\n":    {"event", "3"},
		"old\r\nold\r\n\x1b[H\x1b[2Jn1 → n2\r\nb":  {"n1 → n2", "b"},
		"more\x1b[9A\x1b[Jthan there are rows\r\n": {"than there are rows"},
	} {
		rows, err := show(written)
		require.NoError(t, err)
		var texts []string
		for _, row := range rows {
			texts = append(texts, row.text)
		}
		assert.Equal(t, want, texts, "%q", written)
	}
	for _, written := range []string{"\x1b[35mpurple", "\x1b[A"} {
		_, err := show(written)
		assert.Error(t, err, "%q", written)
	}
}

func TestShow_RowsHaveTheirColors(t *testing.T) {
	rows, err := show("a\r\n\x1b[31mb\x1b[m\r\nc\r\n")
	require.NoError(t, err)
	assert.Equal(t, []row{{"a", ""}, {"b", fills["31"]}, {"c", ""}}, rows)
}

func TestPicture_IsXML(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, picture(&out, "<demo>", []row{{"n1 <leader> & more", fills["32"]}, {}, {"  n2", ""}}))
	decoder := xml.NewDecoder(&out)
	var text string
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if data, is := token.(xml.CharData); is {
			text += string(data)
		}
	}
	assert.Equal(t, "\n<demo>\n\n\nn1\u00a0<leader>\u00a0&\u00a0more\n\u00a0\u00a0n2\n\n\n", text, "no space that a viewer could drop")
}
