package transport

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/coxswain/raft"
	"github.com/hashicorp/go-msgpack/v2/codec"
)

// wireWho is the wire form of a raft.Who.
type wireWho struct {
	ClusterName string `codec:"name"`
	ID          string `codec:"id"`
	Incarnation uint64 `codec:"inc,omitempty"`
	Address     string `codec:"addr,omitempty"`
	Confirm     bool   `codec:"conf,omitempty"`
	Petitions   bool   `codec:"pet,omitempty"` // the fields below belong to the petition
	Meta        string `codec:"meta,omitempty"`
	Learner     bool   `codec:"learn,omitempty"`
}

// wireWhoReply is the wire form of a raft.WhoReply.
type wireWhoReply struct {
	ClusterName             string `codec:"name"`
	ID                      string `codec:"id"`
	Incarnation             uint64 `codec:"inc"`
	Cluster                 []byte `codec:"cluster,omitempty"`
	Term                    uint64 `codec:"term,omitempty"`
	BootstrapperID          string `codec:"fid,omitempty"`
	BootstrapperIncarnation uint64 `codec:"finc,omitempty"`
	Founders                string `codec:"founders,omitempty"` // ids, with a space between two
	Address                 string `codec:"addr,omitempty"`
	Meta                    string `codec:"meta,omitempty"`
	Leader                  string `codec:"leader,omitempty"`
	Members                 []byte `codec:"members,omitempty"` // as in encodeList
	Index                   uint64 `codec:"index,omitempty"`
	Committed               bool   `codec:"commit,omitempty"`
	Confirmed               bool   `codec:"conf,omitempty"`
	Granted                 bool   `codec:"grant,omitempty"`
	Reason                  string `codec:"reason,omitempty"`
}

// encodeWho returns the meta of a frameWho.
func encodeWho(q raft.Who) []byte {
	w := wireWho{
		ClusterName: q.ClusterName, ID: string(q.From.ID), Incarnation: uint64(q.From.Incarnation), Address: q.Address, Confirm: q.Confirm,
	}
	if p := q.Petition; p != nil {
		w.Petitions, w.Meta, w.Learner = true, p.Meta, p.Learner
	}
	return encodeMeta(w)
}

// decodeWho is the reverse of encodeWho; it checks everything that it returns.
func decodeWho(meta []byte) (raft.Who, error) {
	var w wireWho
	if err := decodeMeta(codec.NewDecoderBytes(nil, newHandle()), meta, &w); err != nil {
		return raft.Who{}, err
	}
	for _, id := range []string{w.ClusterName, w.ID} {
		if err := checkID([]byte(id)); err != nil {
			return raft.Who{}, err
		}
	}
	if err := checkOwnTexts(w.Address, w.Meta); err != nil {
		return raft.Who{}, err
	}
	q := raft.Who{ClusterName: w.ClusterName, From: peer(w.ID, w.Incarnation), Address: w.Address, Confirm: w.Confirm}
	if !w.Petitions {
		return q, nil
	}
	if w.Incarnation == 0 || w.Address == "" {
		return raft.Who{}, fmt.Errorf("%w: a petition of %q without its incarnation or its address", ErrMalformed, w.ID)
	}
	q.Petition = &raft.Petition{Meta: w.Meta, Learner: w.Learner}
	return q, nil
}

// encodeWhoReply returns the meta of a frameWhoReply. If the reason is longer than detailMax, encodeWhoReply truncates it.
func encodeWhoReply(r raft.WhoReply) []byte {
	founders := make([]string, len(r.Founders))
	for i, id := range r.Founders {
		founders[i] = string(id)
	}
	return encodeMeta(wireWhoReply{
		ClusterName: r.ClusterName, ID: string(r.From.ID), Incarnation: uint64(r.From.Incarnation),
		Cluster: encodeCluster(nil, r.Cluster), Term: uint64(r.Term),
		BootstrapperID: string(r.Bootstrapper.ID), BootstrapperIncarnation: uint64(r.Bootstrapper.Incarnation),
		Founders: strings.Join(founders, " "), Address: r.Address, Meta: r.Meta, Leader: string(r.Leader),
		Members: encodeList(raft.Configuration{Members: r.Members}), Index: uint64(r.Index), Committed: r.Committed,
		Confirmed: r.Confirmed, Granted: r.Granted, Reason: cut(r.Reason),
	})
}

// decodeWhoReply is the reverse of encodeWhoReply; it checks everything that it returns.
func decodeWhoReply(meta []byte) (raft.WhoReply, error) {
	var w wireWhoReply
	if err := decodeMeta(codec.NewDecoderBytes(nil, newHandle()), meta, &w); err != nil {
		return raft.WhoReply{}, err
	}
	if err := w.check(); err != nil {
		return raft.WhoReply{}, err
	}
	cluster, err := decodeCluster(w.Cluster)
	if err != nil {
		return raft.WhoReply{}, err
	}
	founders, err := decodeFounders(w.Founders)
	if err != nil {
		return raft.WhoReply{}, err
	}
	members, err := decodeMembers(w.Members)
	if err != nil {
		return raft.WhoReply{}, err
	}
	for i, m := range members {
		if err := checkMember(m, members[:i]); err != nil {
			return raft.WhoReply{}, err
		}
	}
	return raft.WhoReply{
		From: peer(w.ID, w.Incarnation), ClusterName: w.ClusterName, Cluster: cluster, Term: raft.Term(w.Term),
		Bootstrapper: peer(w.BootstrapperID, w.BootstrapperIncarnation), Founders: founders, Address: w.Address, Meta: w.Meta,
		Leader: raft.NodeID(w.Leader), Members: members, Index: raft.Index(w.Index), Committed: w.Committed,
		Confirmed: w.Confirmed, Granted: w.Granted, Reason: cut(w.Reason),
	}, nil
}

// check checks the fields that decodeWhoReply does not decode further.
func (w *wireWhoReply) check() error {
	for _, id := range []string{w.ClusterName, w.ID} {
		if err := checkID([]byte(id)); err != nil {
			return err
		}
	}
	for _, id := range []string{w.BootstrapperID, w.Leader} {
		if id == "" {
			continue
		}
		if err := checkID([]byte(id)); err != nil {
			return err
		}
	}
	if w.Incarnation == 0 {
		return fmt.Errorf("%w: an answer of %q without its incarnation", ErrMalformed, w.ID)
	}
	if err := checkNumbers(w.Term, w.Index); err != nil {
		return err
	}
	return checkOwnTexts(w.Address, w.Meta)
}

func decodeFounders(joined string) (founders []raft.NodeID, err error) {
	if joined == "" {
		return nil, nil
	}
	if n := strings.Count(joined, " "); n >= raft.MembersMax {
		return nil, fmt.Errorf("%w: %d founders", ErrMalformed, n+1)
	}
	for id := range strings.SplitSeq(joined, " ") {
		if err := checkID([]byte(id)); err != nil {
			return nil, err
		}
		founders = append(founders, raft.NodeID(id))
	}
	return founders, nil
}

// checkMember checks a member of a configuration in force. before holds the members that are listed before it.
func checkMember(m raft.Member, before []raft.Member) error {
	if err := checkID([]byte(m.ID)); err != nil {
		return err
	}
	if err := checkTexts(m.Address, m.Meta); err != nil {
		return err
	}
	if m.Address == "" || m.Incarnation == 0 || m.Kind > raft.Leaving || m.Priority < raft.PriorityNever || m.Priority > raft.PriorityMax {
		return fmt.Errorf("%w: member %q (%v) with the address %q, kind %d and priority %d", ErrMalformed,
			m.ID, m.Incarnation, m.Address, m.Kind, m.Priority)
	}
	if n := len(before); n > 0 {
		if last := before[n-1]; m.ID < last.ID || m.ID == last.ID && m.Incarnation <= last.Incarnation {
			return fmt.Errorf("%w: member %q (%v) is listed after %q (%v)", ErrMalformed, m.ID, m.Incarnation, last.ID, last.Incarnation)
		}
	}
	return nil
}

// checkOwnTexts checks what a member says about itself. Its Meta is to get into the configuration, through JSON as well.
func checkOwnTexts(address, meta string) error {
	if !utf8.ValidString(address) || !utf8.ValidString(meta) {
		return fmt.Errorf("%w: the address %q or the Meta %q is no UTF-8", ErrMalformed, address, meta)
	}
	return checkTexts(address, meta)
}

func checkTexts(address, meta string) error {
	if len(address) > raft.AddressBytesMax || len(meta) > raft.MetaBytesMax {
		return fmt.Errorf("%w: an address of %d bytes and a Meta of %d", ErrMalformed, len(address), len(meta))
	}
	return nil
}
