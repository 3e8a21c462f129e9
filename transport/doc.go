// Package transport carries messages between the members of a cluster:
//
//   - TCP is the transport of real clusters, with or without TLS: see Listen and New.
//   - Memory is one member of a Network within the process, for tests: see NewNetwork.
//   - EncodeMessage and DecodeMessage are the wire format of one message; EncodeHello, EncodeRejection and
//     DecodeOpening are that of the handshake before it. They do not depend on TCP: your own transport may carry
//     these bytes in calls, datagrams or streams, on behalf of a raft.Handler.
//
// Package transporttest checks that another transport keeps the same contract.
//
// The files: frame.go cuts bytes into frames and has their limits; codec.go, wire.go, fields.go, message.go
// and snapshot.go encode messages; handshake.go and opening.go encode what two members send first; link.go keeps
// one peer connected; tcp.go, dial.go, accept.go, conn.go, snapshotlane.go, beat.go, waiting.go and tls.go do so over
// sockets; memory.go does so without.
package transport
