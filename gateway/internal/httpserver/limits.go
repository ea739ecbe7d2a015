package httpserver

import (
	"syscall"
	"time"
)

// Limits say how many connections there may be, and how long they may wait.
type Limits struct {
	Network    int // connections from the network
	Unproven   int // connections from the network without a proof
	PerAddress int // the same, from one address
	PerOwner   int // proven ones of one node or account
	Local      int // on the operator's socket

	Grace time.Duration // how long an honest peer takes to prove itself
	Quiet time.Duration // between two requests of a connection without a proof
	Body  time.Duration // for a request's body, and once more for the rest of it after the handler
	Stall time.Duration // in which a peer must take Least bytes of what is written to it
	Least int
}

const (
	mostUnproven   = 8192
	mostPerAddress = 1024 // a thousand nodes may share one address, and all come back at once
	mostPerOwner   = 2048 // a node that forwards wire.MaxConnections needs two or three for each
	mostLocal      = 1024 // and so does an operator on the socket
	mostKeptBack   = 256  // for the database, files and calls to others
	unlimited      = 1 << 20
)

// LimitsFor divides a process's descriptors. Some are kept back for the socket and for what the process opens itself.
func LimitsFor(descriptors int) Limits {
	l := Limits{
		Grace: 100 * time.Millisecond, Quiet: 45 * time.Second, Body: 15 * time.Second, Stall: 15 * time.Second, Least: 4 << 10,
		Local: min(max(descriptors/16, 4), mostLocal),
	}
	l.Network = max(descriptors-l.Local-min(max(descriptors/8, 24), mostKeptBack), 4)
	l.Unproven = min(l.Network/2, mostUnproven)
	l.PerAddress = min(max(l.Unproven/2, 2), mostPerAddress)
	l.PerOwner = min(max(l.Network/4, 2), mostPerOwner)
	return l
}

// Descriptors returns how many descriptors this process may have open. Go raises the soft limit to the hard one when the program starts.
func Descriptors() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil || l.Cur > unlimited {
		return unlimited
	}
	return int(l.Cur)
}
