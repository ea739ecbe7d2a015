package join

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"muster/agent/internal/command"
	"muster/agent/internal/transport"
)

// The longest waits of join.
const (
	reachTime  = 20 * time.Second
	enrolTime  = time.Minute
	onlineTime = 90 * time.Second
	gpuTime    = 5 * time.Second // for the first look at the GPUs, once the node is online
)

// reach is step 1: it looks at the gateway, for up to reachTime. No secret is sent. Nothing is proven yet, so only an unreachable gateway
// or a wrong pin ends the join.
func (j *joining) reach(ctx context.Context) (string, error) {
	client, err := j.client()
	if err != nil {
		return "", err
	}
	deadline := time.Now().Add(j.Limit(reachTime))
	for {
		sight, err := client.Look(ctx)
		if err == nil {
			return j.reached(ctx, client, sight)
		}
		err = fmt.Errorf("%w: %s", err, reachAdvice(err, sight))
		if time.Now().After(deadline) || !transport.Sleep(ctx, j.Limit(2*time.Second)) {
			return "", err
		}
		j.live.again("not reached yet", err)
	}
}

// client is one to the gateway that was named, for a machine that may not be a node of it.
func (j *joining) client() (*transport.Client, error) {
	return transport.New(transport.Config{
		Gateway: j.Gateway, Version: j.Version, Timeout: j.Limit(reachTime / 2), First: transport.FirstContact{Pins: j.Pinned()}, Way: j.Way,
	})
}

// reached says what was seen. If the given root pin is a former one of the gateway, it drops the pin and looks again.
func (j *joining) reached(ctx context.Context, client *transport.Client, sight transport.Sight) (string, error) {
	if said := j.dropFormerPin(ctx); said != "" {
		j.note("%s", said)
		return j.reach(ctx)
	}
	return describeSight(client.Gateway(), sight, j.Pin)
}

// describeSight says in one line what the first look has seen. The error says that it is another gateway than the pin names.
func describeSight(gateway string, sight transport.Sight, pin *transport.Pin) (string, error) {
	parts := []string{"reachable"}
	if sight.Proxy != "" {
		parts = []string{"reached through the proxy " + sight.Proxy}
	}
	switch sight.Certificate {
	case transport.CertificateNone:
		parts = append(parts, "plain HTTP (each exchange is signed)")
	case transport.CertificateSystem:
		parts = append(parts, "a certificate that this system trusts")
	case transport.CertificatePinned:
		parts = append(parts, "its own certificate, root pin fits")
	case transport.CertificateUnpinned:
		parts = append(parts, "its own certificate")
	case transport.CertificateForeigner:
		return "", fmt.Errorf("%s shows a certificate that does not chain to the root pin %s: this is another gateway, the pin is an old one, "+
			"or something stands between; compare it with what the gateway prints (muster token create)", gateway, pin)
	}
	if sight.Through == transport.Curl {
		parts = append(parts, "asked through curl")
	}
	if sight.Edge != "" {
		parts = append(parts, "behind "+sight.Edge)
	}
	if sight.Ahead != nil {
		parts = append(parts, command.Clocks(*sight.Ahead))
	}
	if sight.Between != nil {
		parts = append(parts, "but it does not answer like a gateway ("+sight.Between.What+"); going on, the enrolment decides")
	}
	return "gateway " + gateway + ": " + strings.Join(parts, ", "), nil
}

// reachAdvice is the next step for a gateway that could not be reached.
func reachAdvice(err error, sight transport.Sight) string {
	var name *net.DNSError
	switch {
	case sight.Proxy != "":
		return "it was asked through the proxy " + sight.Proxy + " of this environment; check that, or set NO_PROXY"
	case errors.As(err, &name):
		return "check the name in --gateway and this machine's DNS (/etc/resolv.conf)"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there; check the port, and that muster serve runs"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "this machine has no way there; check its network"
	}
	return "check address and port, and that no firewall stands between"
}
