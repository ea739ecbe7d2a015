package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	"muster/gateway/internal/account"
	"muster/gateway/internal/client"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/shellword"
)

// greet says where the gateway is and how to use it.
func (g *gateway) greet(stdout io.Writer, l *listeners) {
	certificate := "the files' certificate"
	if g.ownCertificate() {
		certificate = "its own CA"
	}
	fmt.Fprintf(stdout, "muster %s serves %s on %s with %s, root pin %s\n", version, g.settings.publicURL, l.tls.Addr(), certificate, g.authority.RootPin())
	if l.plain != nil {
		fmt.Fprintf(stdout, "without TLS: %s\n", l.plain.Addr())
	}
	fmt.Fprintf(stdout, "mint a token with: %s token create --tenant TENANT\n", g.settings.muster())
}

// muster is how an operator on this machine calls the program for this gateway, from whatever directory.
func (s *settings) muster() string {
	return s.program + " --data " + shellword.Quote(datadir.Absolute(s.data))
}

func (g *gateway) ownCertificate() bool { return g.settings.tlsCert == "" }

// firstAccount makes the operator's account of a new gateway. Its token is on stdout this once and nowhere else. Under
// systemd that would be the journal, which keeps it and shows it to others: there the account is left to the operator.
func (g *gateway) firstAccount(ctx context.Context, getenv func(string) string, stdout io.Writer) error {
	if getenv("JOURNAL_STREAM") != "" || getenv("INVOCATION_ID") != "" {
		accounts, err := g.store.Accounts(ctx, "")
		if err == nil && len(accounts) == 0 {
			fmt.Fprintf(stdout, "there is no account yet. Its API token would stay in this log, so it is not made here: %s account create NAME --scope '*' makes one\n", g.settings.muster())
		}
		return err
	}
	token, made, err := account.First(ctx, g.store, time.Now())
	if err != nil || !made {
		return err
	}
	fmt.Fprintf(stdout, "account operator, API token, shown this once: %s\n", token.Reveal())
	return nil
}

func (g *gateway) facts() client.Gateway {
	return client.Gateway{
		URL: g.settings.publicURL, Version: version, TrustDomain: g.authority.TrustDomain(),
		RootPin: g.authority.RootPin(), PinnedPublicKey: g.serving.PinnedPublicKey(),
	}
}

// port is the port of an address that a listener has.
func port(a net.Addr) string {
	_, p, _ := net.SplitHostPort(a.String())
	return p
}

// publicPort puts the real port into a public URL that was made from --listen with port 0.
func publicPort(publicURL string, a net.Addr) string {
	u, err := url.Parse(publicURL)
	if err != nil || u.Port() != "0" {
		return publicURL
	}
	u.Host = net.JoinHostPort(u.Hostname(), port(a))
	return u.String()
}

// realPort puts the real port into a listener's address that asked for port 0.
func realPort(listen string, a net.Addr) string {
	host, asked, err := net.SplitHostPort(listen)
	if err != nil || asked != "0" {
		return listen
	}
	return net.JoinHostPort(host, port(a))
}
