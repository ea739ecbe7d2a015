// Package cloud has what muster asks of a company that rents machines, and what such a company answers, in one form for all of them. The
// packages below it speak to one company each.
//
// What a company says is foreign: it is bounded, and what is not known stays unknown. An error or an odd answer is never an empty list.
package cloud

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"muster/agent/wire"
)

// Kinds of companies, as the label provider and the command line name them.
const (
	Vast   = "vast_ai"
	RunPod = "runpod"
	Lambda = "lambda"
)

// Kinds returns all kinds of companies.
func Kinds() []string { return []string{Vast, RunPod, Lambda} }

// RejoinCosts says what a machine loses when it starts again with another script; empty: its company cannot do that.
func RejoinCosts(kind string) string {
	switch kind {
	case Vast:
		return "the disk of the container is emptied, and the machine restarts"
	case RunPod:
		return "the machine restarts, and what is not on its volume is lost"
	}
	return ""
}

// Money is an amount in millionths of a dollar. Prices are per hour.
type Money int64

// Dollar is one dollar.
const Dollar Money = 1_000_000

// Dollars returns the amount as the API shows it.
func (m Money) Dollars() float64 { return float64(m) / float64(Dollar) }

// States of an Instance, in muster's words. Each kind has a table that makes them of its own words.
const (
	Starting = "starting" // it is placed, loaded or booted
	Running  = "running"  // as the company sees it: that says nothing of what runs on it
	Stopped  = "stopped"  // its disk is kept
	Broken   = "broken"   // its program or its host is gone, or it failed
	Ending   = "ending"   // it is being destroyed
	Gone     = "gone"     // it is destroyed
	Unknown  = "unknown"  // a word that the table does not have, or the company does not know
)

// Instance is one rented machine. A nil field is not known.
type Instance struct {
	ID    string
	Name  string // that was set when it was made: the mark by which muster knows its own
	Raw   string // the state in the company's words
	State string
	Why   string // what the company says of its state

	Host   string // the machine that it is on, if the company tells it: it outlives the instance
	Region string
	GPU    string // model, in the company's words
	GPUs   int
	GPUMiB *int64 // memory of one GPU

	Price   *Money // that is charged an hour now, everything included
	Running *Money // that is charged while it runs
	Storage *Money // that is charged while it is stopped

	Outbid    bool // it was stopped because somebody else pays more
	StartedAt *time.Time
	EndsAt    *time.Time // when the company ends it by itself

	SSH *Address // of its ssh server, if it has one
}

// Address is where an ssh server listens.
type Address struct {
	Host string
	Port int
	User string
}

// Want is what offers must have. A zero field does not count.
type Want struct {
	GPU      string // model: a part of the company's name for it, in any case, without spaces, - and _
	GPUs     int    // at least so many in one machine
	GPUMiB   int64  // of one GPU, at least
	MaxPrice Money  // an hour, of the machine
	Region   string
	DiskGB   int
	Bid      bool // interruptible ones too
}

// Offer is a machine that can be rented now.
type Offer struct {
	ID          string // what Create names
	Host        string // empty: it is a kind of machine, which can be rented again and again while there is room
	Region      string
	GPU         string
	GPUs        int
	GPUMiB      *int64
	Price       Money    // an hour, with the disk that was asked for
	Reliability *float64 // 0 to 1
	Until       *time.Time
	Bid         Money // of an interruptible one: what is offered an hour for its GPUs; 0: it is not one
}

// Order rents an offer.
type Order struct {
	Offer  Offer
	Name   string // see Instance.Name
	Image  string // of containers; empty: the kind's own
	Script string // what the machine runs at its start, with #!/bin/sh: it joins the fleet
	DiskGB int
	SSHKey string // name of a key that the company has; Lambda Cloud needs one
}

// What went wrong, as a caller must know it.
const (
	KeyRefused = "key_refused" // the company does not take the key
	NoSuch     = "no_such"     // there is no such instance
	NoOffer    = "no_offer"    // the offer is gone, or there is no room
	Limited    = "limited"     // asked too often
	Refused    = "refused"     // the company says no: asking again does not help
	Unclear    = "unclear"     // no answer, or one that cannot be read: it may have been done
	Unreached  = "unreached"   // nothing was sent: it was not done
)

// Error is a failed call.
type Error struct {
	Kind   string
	Status int    // of HTTP; 0: there was no answer
	Text   string // what the company says, without anything secret
	Again  time.Duration
	// Instance is set if a create failed, but made an instance all the same.
	Instance string
}

// Error says what the company said.
func (e *Error) Error() string {
	text := e.Text
	if e.Status != 0 {
		text = "HTTP " + strconv.Itoa(e.Status) + ": " + text
	}
	return fmt.Sprintf("%s (%s)", text, e.Kind)
}

// Refusal returns the refusal for a caller whose call failed: what was not done, what the company says, and what to do next. An error that
// does not come from a company stays unchanged.
func Refusal(err error, what, next string) error {
	var failed *Error
	if !errors.As(err, &failed) {
		return err
	}
	code := wire.CodeProviderFailed
	switch failed.Kind {
	case KeyRefused:
		next = "make a key there with the rights that muster help providers names, and add the account again with it"
	case NoSuch:
		code = wire.CodeNotFound
	case NoOffer:
		code = wire.CodeNoCapacity
	case Limited, Unreached:
		code = wire.CodeUnavailable
	}
	return wire.Refuse(code, what+": "+wire.Plain(failed.Error(), wire.MaxText), next)
}
