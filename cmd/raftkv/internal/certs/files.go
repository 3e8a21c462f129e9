package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/pemfiles"
	"github.com/coxswain/raft/member"
)

const (
	partSuffix = ".part" // of a file that is being written
	unfinished = "another command is writing it, or was interrupted: then remove it"
)

// Row is what a file has.
type Row struct {
	File, What string
	Until      time.Time // zero: it does not end
	Problem    string    // what is wrong, and what to do; "": nothing
}

// Show returns what the files in a directory have: that of an authority, or of a member.
func Show(dir string) (rows []Row, err error) {
	list, err := files.OS.List(dir)
	for _, f := range list {
		rows = append(rows, look(dir, f.Name)...)
	}
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("%s: there is no certificate in it: name another --dir", dir)
	}
	return rows, err
}

// look returns a row of a file, or one for each authority in it.
func look(dir, name string) (rows []Row) {
	row, suffix := Row{File: filepath.Join(dir, name)}, filepath.Ext(name)
	id := strings.TrimSuffix(name, suffix)
	switch suffix {
	case partSuffix:
		row.Problem = unfinished
	case ".key":
		row.What = "key of " + id + ".pem"
		_, err := readPair(dir, id)
		row.Problem = sentence(err)
	case ".pem":
		all, err := readCertificates(row.File)
		row.Problem = sentence(err)
		for _, c := range all {
			if c.IsCA {
				rows = append(rows, Row{row.File, "authority " + c.Subject.String(), c.NotAfter, sentence(checkAuthority(row.File, c))})
			}
		}
		if err == nil && len(rows) == 0 {
			row.lookAtMember(dir, id, all[0])
		}
		if len(rows) > 0 {
			return rows
		}
	default:
		return nil
	}
	return []Row{row}
}

// lookAtMember adds whose certificate it is, and what the member would say about it.
func (r *Row) lookAtMember(dir, id string, c *x509.Certificate) {
	cluster := ""
	r.What, r.Until = "no member", c.NotAfter
	for _, u := range c.URIs {
		r.What, cluster = u.String(), u.Host
	}
	r.What += ", by " + c.Issuer.String()
	status, err := member.TLSFiles(filepath.Join(dir, authority+".pem"), r.File, filepath.Join(dir, id+".key")).Check(cluster, raft.NodeID(id))
	if r.Problem = sentence(err); err == nil {
		r.Problem = status.Problem
	}
}

func sentence(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// readCertificates returns the certificates in a PEM file.
func readCertificates(name string) ([]*x509.Certificate, error) {
	text, err := pemfiles.Read(name)
	if err != nil {
		return nil, fmt.Errorf("%w: put the certificate there, or name another directory", err)
	}
	all, err := pemfiles.Certificates(text)
	if err != nil {
		err = &member.CertificateError{File: name, Err: err}
	}
	return all, err
}

// readPair returns the certificate and the key of the authority, or of a member.
func readPair(dir, id string) (pair tls.Certificate, err error) {
	name, key := filepath.Join(dir, id+".pem"), filepath.Join(dir, id+".key")
	if err := checkAlone(dir, id); err != nil {
		return pair, err
	}
	all, err := readCertificates(name)
	if err != nil {
		return pair, err
	}
	keyText, err := pemfiles.Read(key)
	if err != nil {
		return pair, fmt.Errorf("%w: put the key of %s there", err, name)
	}
	if pair, err = tls.X509KeyPair(encode("CERTIFICATE", all[0].Raw), keyText); err != nil {
		err = &member.CertificateError{File: key, Err: fmt.Errorf("%w: put the key of %s there", err, name)}
	}
	return pair, err
}

// checkAlone returns an error if there is a key without its certificate, as after a crash between the two.
func checkAlone(dir, id string) error {
	name, key := filepath.Join(dir, id+".pem"), filepath.Join(dir, id+".key")
	_, err := os.Lstat(key)
	if _, missing := os.Lstat(name); err == nil && errors.Is(missing, fs.ErrNotExist) {
		return fmt.Errorf("%s is there without its certificate, %s: another command is writing them, or was interrupted: then remove %s, and "+
			"repeat that command", key, name, key)
	}
	return nil
}

// putPair writes a key and its certificate, neither of which may exist.
func putPair(dir, id string, key, certificate []byte, check func(part string) error) error {
	keyFile := filepath.Join(dir, id+".key")
	if err := checkAlone(dir, id); err != nil {
		return err
	}
	if err := put(keyFile, key, false, nil); err != nil {
		return err
	}
	err := put(filepath.Join(dir, id+".pem"), certificate, false, check)
	if err != nil {
		err = errors.Join(err, os.Remove(keyFile)) // nothing uses it
	}
	return err
}

// put writes a file in one step: after a crash, the whole file is there, or nothing of it. It does not replace a file, unless it is
// told to. check, if it is not nil, gets the name that the new file has before it counts. While there is such a part, every other
// command for the file fails.
func put(name string, text []byte, replace bool, check func(part string) error) error {
	part := name + partSuffix
	f, err := files.OS.Create(part)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%w: %s", err, unfinished)
	case err != nil:
		return fmt.Errorf("%w: run this as the owner of the directory, or name another --dir", err)
	}
	_, err = f.WriteAt(text, 0)
	err = errors.Join(err, f.Sync(), f.Close())
	if _, there := os.Lstat(name); err == nil && !replace && !errors.Is(there, fs.ErrNotExist) {
		err = fmt.Errorf("%s exists, and is kept: use another --dir for a new authority, and --renew for a new certificate", name)
	}
	if err == nil && check != nil {
		err = check(part)
	}
	if err == nil {
		err = files.OS.Rename(part, name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return files.OS.SyncDir(filepath.Dir(name))
}
