// Command kubernetes plays on this machine what Kubernetes does to the pods of jobs.yaml. Each pod is a process of raftkv in a
// network namespace of its own, with an address of its own, and a DNS server has the names of the pods. The pods come back at
// other addresses, with and without their disks, while clients write. It needs Linux and the command ip.
package main

import "github.com/coxswain/raft/examples/internal/apart"

func main() { apart.Main(inside) }
