package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// explain turns a failed run of curl into an error that says what to look at.
func (t *curl) explain(ctx context.Context, out outcome, within time.Duration) error {
	host := t.endpoint.base.Host
	switch { // 28 is curl's exit status for a limit of time, and 51, 60 and 77 are those for certificates
	case out.code == 28 && strings.Contains(out.stderr, "Resolving timed out"):
		return t.endpoint.silent(lookingUp, within, context.DeadlineExceeded)
	case errors.Is(ctx.Err(), context.DeadlineExceeded), out.code == 28:
		return fmt.Errorf("reach %s through curl: no answer within %s: %w", host, within, context.DeadlineExceeded)
	case ctx.Err() != nil:
		return fmt.Errorf("reach %s through curl: %w", host, ctx.Err())
	case out.code == 51, out.code == 60, out.code == 77:
		return fmt.Errorf("%w (curl says: %s)", ErrUntrusted, out.says())
	}
	text := fmt.Sprintf("reach %s through curl: %s", host, reason(out.code))
	if says := out.says(); says != "" {
		text += fmt.Sprintf(" (curl says: %s)", says)
	}
	return errors.New(text)
}

// reason says what an exit status of curl means (EXIT CODES in its manual), and what to look at.
func reason(code int) string {
	switch code {
	case -1:
		return "curl was killed: look for memory limits on this machine"
	case 1, 2, 4:
		return "this curl does not know what is asked of it: install one from 7.49 on, with TLS"
	case 5:
		return "the proxy's name cannot be resolved: check https_proxy and http_proxy"
	case 6:
		return "its name cannot be resolved: check the name in --gateway, and this machine's DNS"
	case 7:
		return "nothing takes the connection: check that the gateway runs, its port, and firewalls between"
	case 18, 92:
		return "the answer broke off: something between cuts connections, it is tried again"
	case 26:
		return "curl cannot read " + bodyFile + ": mount /proc"
	case 35:
		return "the TLS handshake failed: something between cuts it off, or this port speaks no TLS; check the port, or use http://"
	case 52:
		return "the connection was closed without an answer: check that this port is the gateway's, and use https:// where it speaks TLS"
	case 55, 56:
		return "the connection broke off: check the proxy if one is set, and firewalls between"
	case 97:
		return "the proxy refuses the connection: check https_proxy and what it allows"
	}
	return fmt.Sprintf("curl ended with exit status %d: look it up in its manual", code)
}

// untrusted is the error after every fence has refused the certificate. said is what curl said each time, without repetitions. The next
// step depends on what the node could have believed.
func (t *curl) untrusted(ownRoots bool, said []string) error {
	c := t.client
	host := t.endpoint.base.Hostname()
	words := strings.Join(said, "; ")
	enrolled := c.current() != nil
	const clock = "if it was trusted before, check this machine's clock, which curl goes by"
	switch {
	case enrolled && ownRoots:
		return fmt.Errorf("%w: it chains neither to the root that this node was enrolled with nor to one that this system trusts for %s; "+
			"%s (curl says: %s)", ErrUntrusted, host, clock, words)
	case ownRoots || c.cfg.First.Pins != nil:
		return fmt.Errorf("%w: it does not chain to the root %s, nor to one that this system trusts for %s; %s; %s (curl says: %s)",
			ErrUntrusted, c.cfg.First.Pins, host, comparePins, clock, words)
	case enrolled:
		return fmt.Errorf("%w for %s by this system; %s (curl says: %s)", ErrUntrusted, host, clock, words)
	}
	return fmt.Errorf("%w by this system, and every node has a pre-shared key, so that it does not prove the gateway: "+
		"add --root-pin sha256:... (muster psk set prints it on the gateway), or join with an enrollment token (curl says: %s)",
		ErrUntrusted, words)
}

// appendNew appends a text that is not in the list yet: several fences often fail with the same words.
func appendNew(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}
