package stepca

import (
	"errors"
	"fmt"
	"time"

	"muster/agent/wire"
)

// failure is why there is no certificate. The gateway's log gets the text with all particulars. The node gets only detail.
type failure struct {
	text   string
	detail *wire.ErrorDetail // nil: see unavailable
	cause  error             // nil: none
	again  verdict
	date   time.Time // step-ca's clock in the refusal; zero: it gave none
}

// verdict is what to do after a failure.
type verdict int

const (
	final      verdict = iota
	later              // step-ca is away or in trouble: try again
	freshToken         // try again with a fresh token: step-ca refuses those from before its own start
)

func (f *failure) Error() string { return f.text }

// Unwrap returns the answer for the node, and the cause.
func (f *failure) Unwrap() []error {
	out := []error{f.detail}
	if f.detail == nil {
		out[0] = unavailable()
	}
	if f.cause != nil {
		out = append(out, f.cause)
	}
	return out
}

func unavailable() *wire.ErrorDetail {
	return wire.Refuse(wire.CodeUnavailable, "the certificate authority behind this gateway did not certify this node",
		"it is tried again; the operator finds the reason in the gateway's log")

}

// failed makes a final failure from a formatted text. An error that the text wraps becomes its cause.
func failed(format string, args ...any) *failure {
	err := fmt.Errorf(format, args...)
	return &failure{text: err.Error(), cause: errors.Unwrap(err)}
}

// named puts step-ca's address before a failure's text.
func (i *Issuer) named(err error) error {
	var f *failure
	if !errors.As(err, &f) {
		return err
	}
	out := *f
	out.text = "step-ca at " + i.base.String() + ": " + f.text
	return &out
}
