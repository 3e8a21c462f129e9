// Package transport carries messages between the members of a cluster:
//
//   - TCP is the transport of real clusters, with or without TLS. Package member opens it. Otherwise, pass the result of Listen
//     to node.Start. New takes your own listener and dial function.
//   - Memory is one member of a Network within the process, for tests: see NewNetwork.
//   - EncodeMessage and DecodeMessage are the wire format of a message; EncodeHello, EncodeRejection and
//     DecodeOpening are the wire format of the handshake. They do not depend on TCP: your own transport may carry
//     these bytes in RPCs, datagrams or streams, on behalf of a raft.Handler.
//
// Package transporttest checks that another transport keeps the contract of raft.Transport.
package transport
