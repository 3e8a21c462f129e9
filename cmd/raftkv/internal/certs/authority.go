// Package certs makes, renews and checks the files with which members prove to each other who they are.
//
// No file with a key is ever replaced: a renewed certificate keeps its key, and a new authority gets a new directory. So the files
// in a directory fit together at any time, also after a crash.
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/member"
	"github.com/coxswain/raft/transport"
)

const (
	// BothFile has the certificates of an authority and of its predecessors, for the time in which members have certificates of
	// either.
	BothFile = "ca-both.pem"

	authority = "ca"      // ca.pem and ca.key are of the authority
	early     = time.Hour // ago, new certificates begin, because clocks differ
	daysMax   = 100 * 365 // of validity
)

// Authority issues the certificates of a cluster's members.
type Authority struct {
	Cert *x509.Certificate
	dir  string
	key  crypto.PrivateKey
}

// New makes an authority, in a directory that has none. former names the file with the certificates of its predecessors; "": it
// has none.
func New(dir, cluster, former string, days int) (*Authority, error) {
	predecessors, err := readPredecessors(former, cluster)
	if err == nil {
		err = raft.ValidateName("--cluster", cluster)
	}
	if err != nil {
		return nil, err
	}
	until, err := after(days)
	if err != nil {
		return nil, err
	}
	key, keyText, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: cluster + " " + rand.Text()[:8]}, // another name than its successor's
		URIs:    []*url.URL{transport.IdentityURI(cluster, "")},         // so that the name is checked as in a member's certificate
		IsCA:    true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-early), NotAfter: until,
	}
	cert, text, err := create(template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("--cluster %q: %w: a certificate takes a name like that of a host", cluster, err)
	}
	if err := files.OS.MakeDir(dir); err != nil {
		return nil, fmt.Errorf("%w: name another --dir", err)
	}
	if err := putPair(dir, authority, keyText, text, nil); err != nil {
		return nil, err
	}
	if len(predecessors) > 0 {
		err = put(filepath.Join(dir, BothFile), append(text, predecessors...), false, nil)
	}
	return &Authority{cert, dir, key}, err
}

// readPredecessors returns the certificates in a file as a text; the file "" has none.
func readPredecessors(former, cluster string) (text []byte, err error) {
	if former == "" {
		return nil, nil
	}
	all, err := readCertificates(former)
	if err == nil {
		err = checkAuthority(former, all[0])
	}
	if err == nil && len(all[0].URIs) > 0 && clusterOf(all[0]) != cluster { // without a URI, it was made by other means
		err = fmt.Errorf("%s is of cluster %s, not of --cluster %s: name the ca.pem of this cluster", former, clusterOf(all[0]), cluster)
	}
	for _, c := range all {
		text = append(text, encode("CERTIFICATE", c.Raw)...)
	}
	return text, err
}

// Open reads the authority in a directory.
func Open(dir string) (*Authority, error) {
	pair, err := readPair(dir, authority)
	if err == nil {
		err = checkAuthority(filepath.Join(dir, authority+".pem"), pair.Leaf)
	}
	if err != nil {
		return nil, err
	}
	return &Authority{pair.Leaf, dir, pair.PrivateKey}, nil
}

// Issue makes a key and a certificate of a member.
func (a *Authority) Issue(id string, hosts []string, days int) (*x509.Certificate, error) {
	template, err := a.template(id, hosts, days)
	if err != nil {
		return nil, err
	}
	key, keyText, err := newKey()
	if err != nil {
		return nil, err
	}
	cert, text, err := create(template, a.Cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("member %s: %w", id, err)
	}
	return cert, putPair(a.dir, id, keyText, text, a.check(id))
}

// Renew replaces the certificate of a member by one for the same key and, if hosts is empty, for the same hosts.
func (a *Authority) Renew(id string, hosts []string, days int) (*x509.Certificate, error) {
	template, err := a.template(id, hosts, days)
	if err != nil {
		return nil, err
	}
	former, err := readPair(a.dir, id)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(a.dir, id+".pem")
	if !slices.ContainsFunc(former.Leaf.URIs, func(u *url.URL) bool { return *u == *template.URIs[0] }) {
		err := fmt.Errorf("it is of %v, not of %s: put the certificate of this member there", former.Leaf.URIs, template.URIs[0])
		return nil, &member.CertificateError{File: name, Err: err}
	}
	if len(hosts) == 0 {
		template.DNSNames, template.IPAddresses = former.Leaf.DNSNames, former.Leaf.IPAddresses
	}
	cert, text, err := create(template, a.Cert, former.Leaf.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("member %s: %w", id, err)
	}
	return cert, put(name, text, true, a.check(id))
}

// check returns a function that checks that the member would start with a certificate.
func (a *Authority) check(id string) func(certificate string) error {
	return func(certificate string) error {
		trusted, key := filepath.Join(a.dir, authority+".pem"), filepath.Join(a.dir, id+".key")
		_, err := member.TLSFiles(trusted, certificate, key).Check(clusterOf(a.Cert), raft.NodeID(id))
		return err
	}
}

// template returns what a member's certificate says.
func (a *Authority) template(id string, hosts []string, days int) (*x509.Certificate, error) {
	until, err := after(days)
	if err == nil {
		err = raft.ValidateName("member id", id)
	}
	switch {
	case err != nil:
		return nil, err
	case id != filepath.Base(id) || strings.HasPrefix(strings.ToLower(id)+".pem", authority+".") || id+".pem" == BothFile:
		return nil, fmt.Errorf("member id %q: no files of a member can have this name: choose another id", id)
	case until.After(a.Cert.NotAfter):
		return nil, fmt.Errorf("authority %s ends at %s, before the certificate would: use --days %d, or make a new authority, with --former",
			a.Cert.Subject, Time(a.Cert.NotAfter), int(time.Until(a.Cert.NotAfter)/(24*time.Hour)))
	}
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: id}, URIs: []*url.URL{transport.IdentityURI(clusterOf(a.Cert), raft.NodeID(id))},
		NotBefore: time.Now().Add(-early), NotAfter: until, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else if t.DNSNames = append(t.DNSNames, h); h == "" || strings.ContainsAny(h, ":/ ") {
			return nil, fmt.Errorf("--host %q: use a name or an IP address, without a port", h)
		}
	}
	return t, nil
}

func after(days int) (time.Time, error) {
	if days < 1 || days > daysMax {
		return time.Time{}, fmt.Errorf("--days %d: use 1 to %d", days, daysMax)
	}
	return time.Now().AddDate(0, 0, days), nil
}

// clusterOf returns the cluster of an authority: the first word of its name.
func clusterOf(c *x509.Certificate) string {
	cluster, _, _ := strings.Cut(c.Subject.CommonName, " ")
	return cluster
}

// checkAuthority returns an error if the authority could not issue a certificate now.
func checkAuthority(file string, c *x509.Certificate) (err error) {
	switch now := time.Now(); {
	case !c.IsCA || clusterOf(c) == "":
		err = fmt.Errorf("%s is not an authority of a cluster: name the directory, or the ca.pem, of one", c.Subject)
	case now.Before(c.NotBefore):
		err = fmt.Errorf("authority %s begins at %s: correct the clock of this machine", c.Subject, Time(c.NotBefore))
	case now.After(c.NotAfter):
		err = fmt.Errorf("authority %s ended at %s: make a new one, without --former", c.Subject, Time(c.NotAfter))
	default:
		return nil
	}
	return &member.CertificateError{File: file, Err: err}
}

// Time returns a time as the commands print it.
func Time(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// newKey returns a key, and its PEM text.
func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	data, err := x509.MarshalPKCS8PrivateKey(key)
	return key, encode("PRIVATE KEY", data), err
}

// create signs a certificate, and reads it again, because a name may not fit into one.
func create(template, by *x509.Certificate, public crypto.PublicKey, key crypto.PrivateKey) (*x509.Certificate, []byte, error) {
	data, err := x509.CreateCertificate(rand.Reader, template, by, public, key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(data)
	return cert, encode("CERTIFICATE", data), err
}

func encode(kind string, data []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data})
}
