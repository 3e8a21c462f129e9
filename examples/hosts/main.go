// Command hosts runs three hosts on this machine, each a network namespace with an address of its own, and the demo store on
// them, with TLS between its members. While clients write, the network gets slow and loses packets, hosts are cut off and
// restarted, one moves to another address, and all lose power at once. It tells what the clients see, and in the end that
// every acknowledged write is there. It needs Linux, root or user namespaces, /dev/net/tun and the command ip.
package main

import "github.com/coxswain/raft/examples/internal/apart"

func main() { apart.Main(inside) }
