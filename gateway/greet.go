package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	"muster/agent/sign"
	"muster/gateway/internal/adminapi"
	"muster/store"
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
	fmt.Fprintf(stdout, "mint a token with: muster --data %s token create --tenant TENANT\n", g.settings.data)
}

func (g *gateway) ownCertificate() bool { return g.settings.tlsCert == "" }

// firstAccount makes the operator's account of a new gateway. Its token is on stdout this once and nowhere else.
func (g *gateway) firstAccount(ctx context.Context, stdout io.Writer) error {
	token, err := sign.NewToken(sign.AccountToken, nil)
	if err != nil {
		return err
	}
	hash := token.SecretHash()
	now := time.Now()
	made, err := g.store.FirstAccount(ctx, store.Account{
		ID: token.Public(), Name: "operator", Scopes: []string{adminapi.ScopeAll}, SecretHash: hash[:], CreatedAt: now,
	}, store.Event{At: now, Kind: "account.created", Actor: "gateway", Outcome: "ok", Security: true, Detail: map[string]string{"account": "operator"}})
	if err != nil || !made {
		return err
	}
	fmt.Fprintf(stdout, "account operator, API token, shown this once: %s\n", token.Reveal())
	return nil
}

func (g *gateway) facts() adminapi.Gateway {
	return adminapi.Gateway{
		URL: g.settings.publicURL, Version: version, TrustDomain: g.authority.TrustDomain(),
		RootPin: g.authority.RootPin(), PinnedPublicKey: g.serving.PinnedPublicKey(),
	}
}

// joinCommand is what an operator pastes on the machine that is to join. The download is checked on its way: by a
// certificate that the system trusts, or by the pinned key of the gateway's own.
func (g *gateway) joinCommand(token string) string {
	curl := "curl -fsSL"
	if g.ownCertificate() {
		curl = `curl -fsSLk --pinnedpubkey "` + g.serving.PinnedPublicKey() + `"`
	}
	u := g.settings.publicURL
	return fmt.Sprintf("%s %s/agent/linux/$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/') -o muster-agent && chmod +x muster-agent && MUSTER_TOKEN=%s ./muster-agent run --gateway %s",
		curl, u, token, u)
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
