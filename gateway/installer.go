package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"

	"muster"
	"muster/agent/wire"
	"muster/gateway/internal/paste"
)

// installer answers GET /install.sh. The script names the public URL; where the operator gave none, a request without TLS
// gets the address that it was made to, because the one that was made up from --listen may not be reachable from there.
func (g *gateway) installer(r *http.Request) ([]byte, error) {
	asked := "http://" + r.Host
	if r.TLS == nil && !g.settings.publicGiven && !g.origin.Behind(r) && muster.CheckURL(asked) == nil {
		return g.script(asked)
	}
	return g.script(g.settings.publicURL)
}

func (g *gateway) script(gatewayURL string) ([]byte, error) {
	i := muster.Installer{Gateway: gatewayURL, RootPin: g.authority.RootPin(), Version: version, Certificate: g.certificateAt(gatewayURL)}
	if i.Certificate == muster.OwnCertificate {
		i.PinnedKey = g.serving.PinnedPublicKey()
	}
	for _, p := range g.nodes.Platforms() {
		switch p.OS + "/" + p.Arch {
		case "linux/amd64":
			i.SHA256AMD64 = p.SHA256
		case "linux/arm64":
			i.SHA256ARM64 = p.SHA256
		}
	}
	return i.Render()
}

// certificateAt says what a machine meets at this URL. Behind a trusted proxy that is the proxy's certificate, unless the
// URL names the gateway's own port.
func (g *gateway) certificateAt(gatewayURL string) muster.Certificate {
	u, err := url.Parse(gatewayURL)
	switch {
	case err != nil || u.Scheme != "https":
		return muster.NoCertificate
	case !g.ownCertificate():
		return muster.SystemCertificate
	case g.settings.publicGiven && g.origin.Any() && portOf(u) != portOf(&url.URL{Host: g.settings.listen}):
		return muster.SystemCertificate
	}
	return muster.OwnCertificate
}

// endsTLS tells whether nobody stands between a machine and this gateway at a URL: for certain where the certificate is of muster's
// root, else where no proxy is trusted and nothing but the own TLS port can be behind it.
func (g *gateway) endsTLS(gatewayURL string) bool {
	switch g.certificateAt(gatewayURL) {
	case muster.OwnCertificate:
		return true
	case muster.NoCertificate:
		return false
	}
	u, err := url.Parse(gatewayURL)
	return err == nil && !g.origin.Any() && (g.settings.plainListen == "" || portOf(u) == portOf(&url.URL{Host: g.settings.listen}))
}

func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return "443"
}

// joinCommand is what an operator pastes on the machine that is to join. What is downloaded is checked before it runs: by
// a certificate that the system trusts, by the pinned key of the gateway's own, or, without TLS, by the script's digest.
func (g *gateway) joinCommand(token string) string {
	d := paste.Download{URL: g.settings.publicURL + wire.PathInstaller}
	switch g.certificateAt(g.settings.publicURL) {
	case muster.OwnCertificate:
		d.PinnedKey = g.serving.PinnedPublicKey()
	case muster.NoCertificate:
		script, err := g.script(g.settings.publicURL)
		if err != nil {
			g.log.Error("there is no joining command", "error", err)
			return ""
		}
		sum := sha256.Sum256(script)
		d.Digest = hex.EncodeToString(sum[:])
	}
	return d.Command(token)
}
