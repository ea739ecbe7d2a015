package main

import (
	"fmt"
	"log/slog"
	"net"

	"muster/gateway/internal/bootstrap/reach"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/httpserver/origin"
)

// network is the addresses of the gateway, and who may connect to them. It is the second phase. Nothing is answered before openListeners,
// but the parts say under which URL the gateway is reached, and with port 0 that is known only when its ports are.
type network struct {
	tls, plain net.Listener // plain is for requests that prove themselves; nil: --plain-listen does not ask for it
	reach      reach.Reach  // with the real ports
	origin     origin.Resolver
	limiter    *httpserver.Limiter
}

func openNetwork(s settings, log *slog.Logger) (*network, error) {
	n := &network{reach: s.reach()}
	var err error
	if n.origin, err = origin.NewResolver(s.TrustedProxy, s.ClientAddressHeader); err != nil {
		return nil, err
	}
	descriptors := httpserver.Descriptors()
	limits := httpserver.LimitsFor(descriptors)
	n.limiter = httpserver.New(httpserver.Config{Limits: limits, Place: n.origin.Place, Logger: log})
	log.Info("connections that this gateway can hold", "network", limits.Network, "without_proof", limits.Unproven,
		"without_proof_of_one_address", limits.PerAddress, "socket", limits.Local, "descriptors", descriptors)
	if n.tls, err = net.Listen("tcp", s.Listen); err != nil {
		return nil, fmt.Errorf("%w; choose another address with --listen", err)
	}
	n.reach.PublicURL = reach.RealURL(s.PublicURL, n.tls.Addr())
	n.reach.Listen = reach.RealAddress(s.Listen, n.tls.Addr())
	if s.PlainListen == "" {
		return n, nil
	}
	if n.plain, err = net.Listen("tcp", s.PlainListen); err != nil {
		n.close()
		return nil, fmt.Errorf("%w; choose another address with --plain-listen", err)
	}
	n.reach.PlainListen = reach.RealAddress(s.PlainListen, n.plain.Addr())
	return n, nil
}

// close closes the listeners that no server has closed yet.
func (n *network) close() {
	n.tls.Close()
	if n.plain != nil {
		n.plain.Close()
	}
}
