// Package testnet puts the members of a cluster that runs on one machine behind links that lose, delay
// and swallow packets. The members are ordinary processes with ordinary sockets: what TCP does about a
// lost packet is part of what is tested.
//
// It needs a network namespace of its own, see Inside, and /dev/net/tun. Where there is none, the tests
// use proxies, which know connections but no packets.
package testnet

import (
	"fmt"
	"time"
)

// Link is what happens to the packets from one member to another.
type Link struct {
	Loss  int           // percent of the packets; 100 cuts the link without a word to either end
	Delay time.Duration // of the packets that are not lost
}

// MembersMax bounds the members of a network.
const MembersMax = 9

// home is the one address that all members listen on. A member reaches another at an address that no
// interface has, viaAddress: its packets then leave through the TUN device.
const home = "10.8.0.1"

// ephemeralMin is the lowest port that the system gives to a connection that does not choose: members
// listen below it.
const ephemeralMin = 32_768

// HomeAddress is what a member listens on.
func HomeAddress(port string) string { return home + ":" + port }

// ViaAddress is where member number from, counted from 0, dials member number to.
func ViaAddress(from, to int, port string) string {
	return fmt.Sprintf("10.9.%d.%d:%s", from, to, port)
}
