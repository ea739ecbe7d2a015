package reach

// This file gives install.sh as this gateway hands it out, and the command that fetches and runs it.

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strings"

	"muster"
	"muster/agent/wire"
	"muster/gateway/internal/paste"
)

// Installer makes the script anew for each request, with the gateway's present settings.
type Installer struct {
	Version   string // of the agents, for people
	RootPin   string // of the newest root
	PinnedKey string // of the serving certificate, where that is of the gateway's own CA
	Reach     Reach
	Platforms []wire.Platform
	Logger    *slog.Logger
}

// Answer returns the script for a request. The script names the public URL. If the operator gave no public URL, and trusts no proxy, a
// script that is fetched without TLS names the address that it was fetched from: the URL made up from --listen may not be reachable from
// there.
func (i Installer) Answer(r *http.Request) ([]byte, error) {
	asked := "http://" + r.Host
	if r.TLS == nil && muster.CheckURL(asked) == nil {
		return i.script(i.named(asked))
	}
	return i.script(i.Reach.PublicURL)
}

func (i Installer) script(gatewayURL string) ([]byte, error) {
	s := muster.Installer{Gateway: gatewayURL, RootPin: i.RootPin, Version: i.Version, Certificate: i.Reach.CertificateAt(gatewayURL)}
	if s.Certificate == muster.OwnCertificate {
		s.PinnedKey = i.PinnedKey
	}
	for _, p := range i.Platforms {
		switch p.OS + "/" + p.Arch {
		case "linux/amd64":
			s.SHA256AMD64 = p.SHA256
		case "linux/arm64":
			s.SHA256ARM64 = p.SHA256
		}
	}
	return s.Render()
}

// Command returns what an operator pastes on the machine that is to join; empty if there is none. What is downloaded is checked before it
// runs: by a certificate that the system trusts, by the pinned key of the gateway's own, or, without TLS, by the script's digest. With a
// given URL, the machine fetches the script from there, and joins there.
func (i Installer) Command(token, given string) string {
	at := i.at(given)
	d := paste.Download{URL: at.PublicURL + wire.PathInstaller}
	switch at.CertificateAt(at.PublicURL) {
	case muster.OwnCertificate:
		d.PinnedKey = i.PinnedKey
	case muster.NoCertificate:
		script, err := i.script(i.named(at.PublicURL))
		if err != nil {
			i.Logger.Error("there is no joining command", "error", err)
			return ""
		}
		sum := sha256.Sum256(script)
		d.Digest = hex.EncodeToString(sum[:])
	}
	command := d.Command(token)
	if at.PublicURL != i.Reach.PublicURL {
		command += " --gateway " + paste.Quote(at.PublicURL)
		if d.PinnedKey != "" && i.Reach.CertificateAt(i.Reach.PublicURL) != muster.OwnCertificate {
			command += " --pinned-key " + d.PinnedKey // the script is for the public URL, and the agent comes from here
		}
	}
	return command
}

// at is how the gateway is reached by the URL that a person gave for some machines; empty: as ever.
func (i Installer) at(given string) Reach {
	at := i.Reach
	if u, err := Given(given); err == nil {
		if u.Scheme == "http" { // a client leaves the usual port out of Host, which the script names: see Answer
			u.Host = strings.TrimSuffix(u.Host, ":80")
		}
		at.PublicURL = u.String()
		at.PublicGiven = true
	}
	return at
}

// named is the URL in the script that a machine fetches without TLS from a URL: see Answer.
func (i Installer) named(from string) string {
	if i.Reach.PublicGiven || i.Reach.Proxied {
		return i.Reach.PublicURL
	}
	return from
}
