package post

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// Error says why something was not taken, in words that hold nothing of an address but the host.
type Error struct {
	Text    string
	Next    string        // what to do
	Status  int           // of the answer; 0: there was none
	Refused bool          // this will never be taken, and something else may be
	After   time.Duration // it was asked to wait so long; 0: it was not
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// unreached says why no answer came. The errors of net/http hold the whole URL, which may be a secret, so none of their text is used.
func (c *Client) unreached(host string, err error) *Error {
	e := &Error{Text: "no connection to " + host, Next: "check the URL, and that the gateway's machine reaches it"}
	var name *net.DNSError
	var unknown x509.UnknownAuthorityError
	var wrongName x509.HostnameError
	var invalid x509.CertificateInvalidError
	var timeout net.Error
	switch {
	case errors.Is(err, errForbidden):
		e.Text = "the gateway pushes nothing to the address of " + host
		e.Next = "name a " + c.What + " that others can reach too: link-local addresses are refused, and loopback ones in a tenant's rule"
	case errors.As(err, &name):
		e.Text = "the name of " + host + " is not known"
		e.Next = "check the host in the URL, and the DNS of the gateway's machine"
	case errors.As(err, &unknown):
		e.Text = "the certificate of " + host + " is not of an authority that this machine trusts"
		e.Next = c.Untrusted
	case errors.As(err, &wrongName):
		e.Text = "the certificate of " + host + " is for another name"
		e.Next = "use the name in the certificate"
	case errors.As(err, &invalid):
		e.Text = "the certificate of " + host + " is not good, or not any more"
		e.Next = "renew it there; check the clocks"
	case errors.As(err, &timeout) && timeout.Timeout():
		e.Text = fmt.Sprintf("%s gave no answer within %s", host, c.Time)
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Text = "nothing listens at " + host
		e.Next = "check the port in the URL, and that the " + c.What + " runs"
	}
	return e
}
