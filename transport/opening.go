package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/coxswain/raft"
)

// EncodeHello returns the bytes that a member sends first on a connection: its hello, with the protocol versions of this
// release. Your own transport sends these bytes to a peer, and decodes the answer with DecodeOpening. See raft.Handler for
// what a node does with a hello, and handshake.View for the rules.
func EncodeHello(h raft.Hello) []byte {
	return opening{versions: ours, hello: h}.encode()
}

// EncodeRejection returns the bytes that a member sends to a caller that it rejects. The member sends them instead of its own
// hello. Every protocol version can read them.
func EncodeRejection(r raft.Rejection) []byte {
	return opening{versions: ours, rejection: &r}.encode()
}

// DecodeOpening decodes and checks the result of EncodeHello or EncodeRejection. If it is a hello, rejection is nil, and
// h.Protocol is the highest version that both sides know. Every error matches ErrMalformed, ErrOversized or ErrVersion.
// ErrVersion means that the peer speaks no version that this release knows.
func DecodeOpening(b []byte) (h raft.Hello, rejection *raft.Rejection, err error) {
	r := bytes.NewReader(b)
	f := newFrameReader(r, FrameBytesMax)
	o, err := readOpening(f)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: it ended after %d bytes", ErrMalformed, len(b))
	}
	if err == nil && (o.who != nil || o.reply != nil) {
		err = fmt.Errorf("%w: neither a hello nor a rejection", ErrMalformed)
	}
	if err != nil {
		return raft.Hello{}, nil, err
	}
	if f.release(); f.r.Buffered()+r.Len() > 0 {
		return raft.Hello{}, nil, fmt.Errorf("%w: there are bytes after the handshake", ErrMalformed)
	}
	return o.hello, o.rejection, nil
}
