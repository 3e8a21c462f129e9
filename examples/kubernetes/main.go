// Command kubernetes plays on this machine what Kubernetes does to the pods of jobs.yaml. Each pod is a process of raftkv in a
// network namespace of its own, with an address of its own, and a DNS server has the names of the pods. The pods come back at
// other addresses, with and without their disks, while clients write. It needs Linux and the command ip.
package main

import (
	"errors"
	"log"
	"os"
)

// insideVariable holds the directory of a run, in the process that is in new namespaces.
const insideVariable = "COXSWAIN_KUBERNETES_INSIDE"

// impossibleError says why this machine cannot play the pods.
type impossibleError struct{ why string }

func (e *impossibleError) Error() string { return e.why }

func main() {
	log.SetFlags(0)
	if dir := os.Getenv(insideVariable); dir != "" {
		if err := inside(dir); err != nil {
			log.Fatal(err)
		}
		return
	}
	var impossible *impossibleError
	switch err := apart(os.Stdout); {
	case errors.As(err, &impossible):
		log.Print("skipped: ", err)
	case err != nil:
		log.Fatal(err)
	}
}
