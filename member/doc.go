// Package member runs one member of a cluster in a process. Most programs need one call:
//
//	m, err := member.Start(ctx, member.Config{
//		ID: "jobs-1", Cluster: "jobs", Dir: "/var/lib/jobs", Listen: ":7000", Advertise: "jobs-1.jobs:7000",
//		Founders: member.Ordinals("jobs", 3), Seeds: member.DNS("jobs:7000"), // the same on all members, in every state
//		TLS: member.TLSFiles("ca.pem", "jobs-1.pem", "jobs-1.key"), // read again when they change
//	}, fsm)
//	...
//	err = m.Shutdown(ctx, httpServer)
//
// Start opens the store in a directory and the transport on a port, and starts a node on them. A Member owns what belongs to
// the process: the directory, the port, the connections and the certificates. Its Node is the member of the group that these
// serve. To compose the parts in another way, use package node instead.
package member
