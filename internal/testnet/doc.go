// Package testnet connects the members of a cluster on one machine by links that lose and delay packets. The members are
// ordinary processes with ordinary sockets, so TCP's reaction to a lost packet is part of the test.
//
// It needs a network namespace of its own and /dev/net/tun; package namespace gives a test both.
package testnet

import (
	"fmt"
	"time"
)

// Link describes what happens to the packets from one member to another.
type Link struct {
	Loss  int           // percent of the packets; 100 cuts the link without notice to either end
	Delay time.Duration // of the packets that are not lost
}

// MembersMax bounds the members of a network.
const MembersMax = 9

// home is the address that all members listen on. A member dials another at an address that no interface has, see
// ViaAddress, so that its packets leave through the TUN device.
const home = "10.8.0.1"

// ephemeralMin is the lowest port that the system assigns to outgoing connections. Members listen below it.
const ephemeralMin = 32_768

// HomeAddress returns the address for a member to listen on.
func HomeAddress(port string) string { return home + ":" + port }

// ViaAddress returns the address at which member number from, counted from 0, dials member number to.
func ViaAddress(from, to int, port string) string {
	return fmt.Sprintf("10.9.%d.%d:%s", from, to, port)
}
