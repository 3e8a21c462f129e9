// Package transport carries messages between the members of a cluster. There are only a few types:
//
//   - TCP is the transport of real clusters, with or without TLS: see Listen and New.
//   - Memory is one member of a Network within the process, for tests: see NewNetwork.
//   - EncodeMessage and DecodeMessage are the wire format of one message; EncodeHello, EncodeRejection and
//     DecodeOpening that of the handshake before it. They need no TCP: a transport of one's own may carry these
//     bytes in calls, datagrams or streams. What it sends goes to, and comes from, a raft.Handler.
//
// Package transporttest proves that another transport keeps the same contract.
//
// The map of rooms: frame.go, how bytes are cut into frames, and their limits; codec.go and
// message.go, what stands in a message's frame; handshake.go and opening.go, what two members say first; link.go,
// one peer that is kept connected; tcp.go, dial.go, accept.go, conn.go and tls.go, the same over
// sockets; memory.go, the same without.
package transport
