// Package pemfiles reads files with certificates and keys.
package pemfiles

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/coxswain/raft/internal/files"
)

// BytesMax is the size of the largest file that Read takes.
const BytesMax = 1 << 20

// Read returns the contents of a regular file.
func Read(name string) ([]byte, error) {
	if err := files.CheckRegular(name); err != nil { // opening a named pipe would wait for a writer
		return nil, err
	}
	info, err := os.Stat(name)
	if err == nil && info.Size() > BytesMax {
		err = fmt.Errorf("%d bytes; it takes at most %d", info.Size(), BytesMax)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(name)
}

// Certificates returns the certificates in the text of a PEM file, at least one. Part of a file is refused, because crypto/x509
// would silently leave out the certificate that is cut off.
func Certificates(text []byte) (all []*x509.Certificate, err error) {
	begun, complete := bytes.Count(text, []byte("-----BEGIN ")), 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		complete++
		if block.Type != "CERTIFICATE" {
			continue
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d in it: %w: put a complete file in its place", len(all)+1, err)
		}
		all = append(all, one)
	}
	switch {
	case begun != complete:
		return nil, fmt.Errorf("it is incomplete: %d PEM blocks begin, and %d can be read: put a complete file in its place", begun, complete)
	case len(all) == 0:
		return nil, errors.New("there is no certificate in it: was it mixed up with the key?")
	}
	return all, nil
}
