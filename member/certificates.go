package member

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pemfiles"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/transport"
)

// CertificateFiles names the files of a member's certificate, see TLSFiles. Without names, there is no TLS.
type CertificateFiles struct{ Authorities, Certificate, Key string }

// TLSFiles names PEM files with which members prove to each other who they are: the certificates of the authorities, this
// member's certificate (followed by those of intermediate authorities, if there are any), and its key. The certificate must
// have the URI transport.IdentityURI(cluster, id), unless Net.VerifyPeer sets another rule, and the usages server and client.
//
// The files are read again every second. If they have changed, and fit together, they hold for every connection that is made
// from then on. Open connections stay open. If they do not fit, the former ones stay in use; the log says why, and so does
// Status.Certificate.
func TLSFiles(authorities, certificate, key string) CertificateFiles {
	return CertificateFiles{authorities, certificate, key}
}

func (f CertificateFiles) complete() bool {
	return f.Authorities != "" && f.Certificate != "" && f.Key != ""
}

// CertificateError refuses the files of TLSFiles. At a start, the member does not start. Later, it keeps the former ones.
type CertificateError struct {
	File string // the one to correct
	Err  error  // what is wrong with it, and what to do
}

func (e *CertificateError) Error() string { return fmt.Sprintf("%s: %v", e.File, e.Err) }

func (e *CertificateError) Unwrap() error { return e.Err }

const (
	certificatePause  = time.Second         // between two looks at the files
	certificateLines  = time.Minute         // between two lines of the log about the same problem
	certificateNotice = 30 * 24 * time.Hour // so long before its end, a certificate is a problem
)

// certificates are those of one member. Only look uses the fields in the middle.
type certificates struct {
	files CertificateFiles
	check func(leaf *x509.Certificate) error // the rule of the identity
	log   hclog.Logger

	read    [3][]byte                  // the contents in use
	refused int                        // looks in a row that found other contents, and refused them
	said    map[string]certificateLine // the latest line of each verdict in the log

	config  atomic.Pointer[tls.Config]
	until   atomic.Pointer[validity]
	refusal atomic.Pointer[CertificateError] // of the newer contents; nil: there are none
}

// validity is when the chain of a certificate ends, with the names of the authorities.
type validity struct {
	end  time.Time
	leaf bool // the certificate itself ends then, and not one of its authorities

	issuer  string   // of the certificate
	trusted []string // the authorities whose certificates are accepted
}

// Check reads the files as the member does at its start, and returns what its status would say about them, or an error that
// matches *CertificateError, with which it would not start.
func (f CertificateFiles) Check(cluster string, id raft.NodeID) (*node.CertificateStatus, error) {
	c, err := newCertificates(Config{Cluster: cluster, ID: id, TLS: f})
	if err != nil {
		return nil, err
	}
	return c.status(time.Now()), nil
}

// newCertificates reads the files for the first time.
func newCertificates(cfg Config) (*certificates, error) {
	c := &certificates{files: cfg.TLS, log: cfg.Logger, said: map[string]certificateLine{}}
	c.check = func(leaf *x509.Certificate) error {
		want := transport.IdentityURI(cfg.Cluster, cfg.ID)
		for _, u := range leaf.URIs {
			if *u == *want {
				return nil
			}
		}
		return fmt.Errorf("its URIs are %v, but it must carry %s: issue a certificate for this member", leaf.URIs, want)
	}
	if cfg.Net.VerifyPeer != nil {
		c.check = func(*x509.Certificate) error { return nil }
	}
	contents, err := c.files.read()
	if err == nil {
		err = c.take(contents, time.Now())
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// watch looks at the files until the context ends.
func (c *certificates) watch(ctx context.Context) {
	look := time.NewTicker(certificatePause)
	defer look.Stop()
	for {
		c.report(time.Now())
		select {
		case <-ctx.Done():
			return
		case now := <-look.C:
			c.look(now)
		}
	}
}

// look takes the contents of the files if they have changed. A single look may find the files while they are being
// replaced, so only the second refusal in a row counts. Refused contents are tried again, because a certificate may become
// valid.
func (c *certificates) look(now time.Time) {
	contents, err := c.files.read()
	changed := err == nil && !slices.EqualFunc(contents[:], c.read[:], bytes.Equal)
	if changed {
		err = c.take(contents, now)
	}
	if err == nil {
		c.refused = 0
		c.refusal.Store(nil)
		if changed {
			c.log.Info("the certificates were read again", "certificate", c.files.Certificate, "valid_until", c.until.Load().end.UTC().Format(time.RFC3339))
		}
		return
	}
	var latest *CertificateError
	if c.refused++; c.refused > 1 && errors.As(err, &latest) && !latest.repeats(c.refusal.Load()) {
		c.refusal.Store(latest)
	}
}

// repeats reports that an earlier refusal says the same, except for the time at which it was found.
func (e *CertificateError) repeats(earlier *CertificateError) bool {
	var latest, former *transport.CertificateTimeError
	return earlier != nil && e.File == earlier.File && errors.As(e, &latest) && errors.As(earlier, &former) &&
		latest.NotBefore.Equal(former.NotBefore) && latest.NotAfter.Equal(former.NotAfter)
}

// certificateLine is a line in the log that says that a problem has begun, or that it has ended.
type certificateLine struct {
	begun bool
	at    time.Time
}

// report logs each problem when it begins and when it ends, but writes a line about it at most once a minute.
func (c *certificates) report(now time.Time) {
	found := findings("", c.status(now), now)
	for _, name := range []string{node.VerdictEndsSoon, node.VerdictNotUsed} {
		i := slices.IndexFunc(found, func(f node.Finding) bool { return f.Verdict == name })
		line := certificateLine{i >= 0, now}
		if last := c.said[name]; line.begun == last.begun || !last.at.IsZero() && now.Sub(last.at) < certificateLines {
			continue
		}
		c.said[name] = line
		if v, _ := node.VerdictNamed(name); line.begun {
			c.log.Warn("a problem has begun", "verdict", name, "says", found[i].Says, "see", v.Runbook())
		} else {
			c.log.Info("a problem has ended", "verdict", name)
		}
	}
}

// findings returns the verdicts about the certificate of a member.
func findings(id raft.NodeID, s *node.CertificateStatus, now time.Time) (all []node.Finding) {
	if s == nil || s.Problem == "" {
		return nil
	}
	if s.NotAfter.Sub(now) <= certificateNotice {
		all = append(all, node.Finding{Verdict: node.VerdictEndsSoon, Member: id, Says: s.Problem})
	}
	if s.Refused {
		all = append(all, node.Finding{Verdict: node.VerdictNotUsed, Member: id, Says: s.Problem})
	}
	return all
}

// status returns what Status says about the certificates.
func (c *certificates) status(now time.Time) *node.CertificateStatus {
	until := c.until.Load()
	left := until.end.Sub(now)
	s := &node.CertificateStatus{NotAfter: until.end, DaysLeft: int(left / (24 * time.Hour)), Refused: c.refusal.Load() != nil}
	s.Issuer, s.Authorities = until.issuer, until.trusted
	what, at := "an authority of "+c.files.Certificate, until.end.UTC().Format(time.RFC3339)
	if until.leaf {
		what = c.files.Certificate
	}
	switch {
	case left <= 0:
		s.Problem = fmt.Sprintf("%s ended at %s: renew it; no new connection is made until then", what, at)
	case left <= certificateNotice:
		s.Problem = fmt.Sprintf("%s ends at %s, in %d days: renew it", what, at, s.DaysLeft)
	}
	if refusal := c.refusal.Load(); refusal != nil {
		if s.Problem != "" {
			s.Problem += "; "
		}
		s.Problem += fmt.Sprintf("the new files are not used, and the former ones stay in use: %v", refusal)
	}
	return s
}

// read returns the contents of the files.
func (f CertificateFiles) read() (contents [3][]byte, err error) {
	for i, name := range []string{f.Authorities, f.Certificate, f.Key} {
		if contents[i], err = pemfiles.Read(name); err != nil {
			return contents, &CertificateError{File: name, Err: err}
		}
	}
	return contents, nil
}

// take checks the contents and uses them from now on. If it returns an error, nothing has changed.
func (c *certificates) take(contents [3][]byte, now time.Time) error {
	authorities, err := pemfiles.Certificates(contents[0])
	if err != nil {
		return &CertificateError{File: c.files.Authorities, Err: err}
	}
	if _, err = pemfiles.Certificates(contents[1]); err != nil {
		return &CertificateError{File: c.files.Certificate, Err: err}
	}
	pair, err := tls.X509KeyPair(contents[1], contents[2])
	if err != nil {
		return &CertificateError{File: c.files.Key, Err: fmt.Errorf("%w: it must be the key of %s", err, c.files.Certificate)}
	}
	roots := x509.NewCertPool()
	for _, a := range authorities {
		roots.AddCert(a)
	}
	until, err := c.verify(pair, roots, now)
	if err != nil {
		return &CertificateError{File: c.files.Certificate, Err: err}
	}
	until.issuer = pair.Leaf.Issuer.String()
	for _, a := range authorities {
		until.trusted = append(until.trusted, a.Subject.String())
	}
	c.read = contents
	c.until.Store(until)
	c.config.Store(&tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots})
	return nil
}

// verify checks that the other members would accept the certificate, and returns when its chain ends.
func (c *certificates) verify(pair tls.Certificate, roots *x509.CertPool, now time.Time) (*validity, error) {
	leaf := pair.Leaf
	if err := c.check(leaf); err != nil {
		return nil, err
	}
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return nil, &transport.CertificateTimeError{NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter, Now: now,
			Err: x509.CertificateInvalidError{Cert: leaf, Reason: x509.Expired}}
	}
	intermediates := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		if one, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(one)
		}
	}
	var until validity
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		chains, err := leaf.Verify(x509.VerifyOptions{
			Roots: roots, Intermediates: intermediates, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage},
		})
		if err != nil {
			return nil, fmt.Errorf("%w: it needs the usages server and client, and %s must hold the authority that has issued it",
				err, c.files.Authorities)
		}
		until = longest(chains)
	}
	return &until, nil
}

// longest returns the end of the chain that ends last.
func longest(chains [][]*x509.Certificate) (until validity) {
	for _, chain := range chains {
		end := validity{end: chain[0].NotAfter, leaf: true}
		for _, one := range chain[1:] {
			if one.NotAfter.Before(end.end) {
				end = validity{end: one.NotAfter}
			}
		}
		if end.end.After(until.end) {
			until = end
		}
	}
	return until
}
