package join

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"muster/agent/internal/command"
	"muster/agent/internal/gpu"
	"muster/agent/internal/identity"
	"muster/agent/internal/service"
	"muster/agent/internal/transport"
)

// findings prints the lines of a check, and counts what would keep the machine from joining.
type findings struct {
	j      *joining
	broken int
}

// say prints the line of one check.
func (c *findings) say(ok bool, what, format string, args ...any) {
	verdict := "ok"
	if !ok {
		verdict = "FAILS"
		c.broken++
	}
	fmt.Fprintf(c.j.Stdout, "%-11s %-5s %s\n", what, verdict, fmt.Sprintf(format, args...))
}

// hint prints a line about something that is missing and does not keep the machine from joining.
func (c *findings) hint(what, format string, args ...any) {
	fmt.Fprintf(c.j.Stdout, "%-11s %-5s %s\n", what, "note", fmt.Sprintf(format, args...))
}

// errWouldFail ends a check that found something.
var errWouldFail = errors.New("joining would not work: mend what is said above")

// checkAll says line by line whether joining would work. Nothing is written, and no credential is sent.
func (j *joining) checkAll(ctx context.Context) error {
	c := &findings{j: j}
	c.network(ctx)
	c.token()
	c.joined(ctx)
	c.places(ctx)
	c.gpus(ctx)
	c.service(ctx)
	if c.broken > 0 {
		return errWouldFail
	}
	fmt.Fprintln(j.Stdout, "joining would work: run the same without --check")
	return nil
}

// network checks the way to the gateway, layer by layer: name, connection, certificate, answer, clock.
func (c *findings) network(ctx context.Context) {
	client, err := c.j.client()
	if err != nil {
		c.say(false, "gateway", "%v", err)
		return
	}
	sight, err := client.Look(ctx)
	c.names(ctx, sight) // also if the look failed: a name that resolves rules one cause out
	if err != nil {
		c.say(false, failedPart(err), "%v: %s", err, reachAdvice(err, sight))
		return
	}
	c.say(true, "TCP", "%s answers", client.Gateway())
	if said := c.j.dropFormerPin(ctx); said != "" {
		c.hint("root pin", "%s", said)
		if sight.Certificate == transport.CertificateForeigner {
			sight.Certificate = transport.CertificateUnpinned
		}
	}
	line, err := describeSight(client.Gateway(), sight, c.j.Pin)
	if err != nil {
		c.say(false, "TLS", "%v", err)
		return
	}
	c.say(sight.Between == nil, "gateway", "%s", line)
	c.clock(sight)
}

// names looks the gateway's name up, unless a proxy does that.
func (c *findings) names(ctx context.Context, sight transport.Sight) {
	u, err := url.Parse(c.j.Gateway)
	if err != nil || sight.Proxy != "" || net.ParseIP(u.Hostname()) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.j.Limit(reachTime/2))
	defer cancel()
	if addresses, err := net.DefaultResolver.LookupHost(ctx, u.Hostname()); err == nil {
		c.say(true, "DNS", "%s is %s", u.Hostname(), addresses[0])
	}
}

// failedPart is the layer in which an error happened.
func failedPart(err error) string {
	var name *net.DNSError
	var operation *net.OpError
	switch {
	case errors.As(err, &name):
		return "DNS"
	case errors.As(err, &operation) && operation.Op == "dial":
		return "TCP"
	}
	return "TLS"
}

// clock compares the clocks. A wrong clock is no failure: the agent takes the time from the gateway.
func (c *findings) clock(sight transport.Sight) {
	switch {
	case sight.Ahead == nil:
		c.hint("clock", "the gateway's answer carries no date")
	case sight.Ahead.Abs() > time.Minute:
		c.hint("clock", "%s: the agent corrects for that, other programs do not; set it (NTP)", command.Clocks(*sight.Ahead))
	default:
		c.say(true, "clock", "%s", command.Clocks(*sight.Ahead))
	}
}

// token checks whether the credential is mistyped. It does not ask the gateway, because that would spend a token.
func (c *findings) token() {
	if !c.j.HasSecret() {
		c.hint("token", "none given: one is needed unless this machine is enrolled already (muster token create, on the gateway)")
		return
	}
	credential, err := c.j.Credential(c.j.Program)
	if err != nil {
		c.say(false, "token", "%v", err)
		return
	}
	defer credential.Forget()
	c.say(true, "token", "%s is typed right; not sent, so not spent", credential.ID)
}

// joined checks whether this machine is enrolled already, and with the gateway that was named.
func (c *findings) joined(ctx context.Context) {
	state, err := identity.Read(c.j.State)
	if err == nil && state.Current == nil {
		return
	}
	if err == nil {
		err = c.j.refuseOther()
	}
	if err == nil && !c.j.force {
		err = c.j.checkPin(ctx, state)
	}
	if err != nil {
		c.say(false, "joined", "%v", err)
		return
	}
	c.say(true, "joined", "this machine is enrolled as %s with %s", state.Name, state.Gateway.URL)
}

// places checks what join checks before it writes anything.
func (c *findings) places(ctx context.Context) {
	kind, err := c.j.manager.Choose(ctx)
	if err != nil {
		kind = c.j.manager.Kind() // the check of the service says what is wrong
	}
	for _, found := range c.j.places(kind) {
		c.say(found.ok, found.what, "%s", found.text)
	}
}

// gpus says what a look at the GPUs gives. A node without GPUs may join too, so this never fails the check.
func (c *findings) gpus(ctx context.Context) {
	if c.j.NoGPU {
		c.hint("GPU", "not looked at (--no-gpu)")
		return
	}
	prober := &gpu.Prober{Path: c.j.NvidiaSMI}
	reading := prober.Probe(ctx)
	if len(reading.GPUs) == 0 {
		c.hint("GPU", "%s; the node joins without", command.Summarize(reading))
		return
	}
	c.say(true, "GPU", "%s", command.Summarize(reading))
}

// service says what would keep the agent running.
func (c *findings) service(ctx context.Context) {
	if c.j.System.UID == 0 {
		c.say(true, "privileges", "root")
	} else {
		c.hint("privileges", "none: the agent runs as this user and cannot do what needs root")
	}
	kind, err := c.j.manager.Choose(ctx)
	if err != nil {
		c.say(false, "service", "%v", err)
		return
	}
	if kind != service.Supervised {
		c.say(true, "service", "%s", kind)
		return
	}
	by, advice := c.j.manager.Boot()
	if by == "" {
		c.hint("service", "%s: the built-in supervisor. %s", c.j.manager.Without(), advice)
		return
	}
	c.say(true, "service", "%s: the built-in supervisor, restarted %s", c.j.manager.Without(), by)
}
