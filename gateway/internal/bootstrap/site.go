package bootstrap

import (
	"net"
	"net/url"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/paste"
)

// Trust says how a machine checks the gateway when it fetches the script: the first hop.
type Trust string

// The values of Trust.
const (
	SystemTrust Trust = "system" // a certificate that systems trust
	PinnedTrust Trust = "own"    // the gateway's own key, pinned
	PlainTrust  Trust = "plain"  // nothing, because it is plain HTTP: the machine checks the script's digest
)

// Site is what a script says about its gateway. It does not change after the script is made.
type Site struct {
	NodeURL        string // https://HOST[:PORT], for everything after the first hop
	OwnCertificate bool   // NodeURL's certificate chains to Roots; otherwise to a root that systems trust
	Direct         bool   // the gateway itself ends NodeURL's TLS, so nobody else sees a URL with a token
	FirstHop       string // scheme, host and port under which the script itself is fetched
	FirstHopTrust  Trust
	PinnedKey      string // sha256//<base64>, with PinnedTrust
	RootPin        string // sha256:<hex>
	Roots          string // PEM bundle
	TrustNumber    int64
	TrustKey       string
	AnswerKeys     []string
	TaskKeys       []string
	ReleaseKeys    []string
	Agents         []wire.Platform
	ResolveAddress string // of NodeURL's host, for machines that cannot resolve it; empty: they can
	InstallRuntime bool   // install a container runtime if there is none
	RuntimePackage string // its apt package
	Registry       string // HOST[:PORT] that nodes log in to; empty: none
}

// Release is the release of the channel of a script's node, as it was when the script was made.
type Release struct {
	Reference string // HOST[:PORT]/repository@sha256:<hex>, as OCI's clients write it; empty: there is none, and Agents are installed
	Digest    string // sha256:<hex> of its index
	Channel   string
	Sequence  int64 // the script obeys no lower number
	Platforms []wire.ReleasePlatform
}

// program is what the release installs on Linux of an architecture: the digest of the program, and type and digest of its layer.
func (r Release) program(arch string) (program, layer string) {
	for _, p := range r.Platforms {
		if p.OS == "linux" && p.Arch == arch {
			return strings.TrimPrefix(p.Program, "sha256:"), p.MediaType + " " + strings.TrimPrefix(p.Digest, "sha256:")
		}
	}
	return "", ""
}

// URL returns the URL at which a machine fetches the script of a token. It holds the fetch part, and never the secret.
func (s Site) URL(fetchPart string) string { return s.FirstHop + wire.BootstrapScriptPath(fetchPart) }

// Package is the agent for one platform.
type Package struct {
	OS     string
	Arch   string
	Ref    string // URL of the binary
	Digest string // sha256:<hex>
}

// Packages returns the agents that a script can fetch, in the order of Agents.
func (s Site) Packages() []Package {
	var out []Package
	for _, p := range s.Agents {
		out = append(out, Package{OS: p.OS, Arch: p.Arch, Ref: s.NodeURL + p.Path, Digest: "sha256:" + p.SHA256})
	}
	return out
}

// digest is the SHA-256 of the Linux agent for an architecture; empty: the gateway has none.
func (s Site) digest(arch string) string {
	for _, p := range s.Agents {
		if p.OS == "linux" && p.Arch == arch {
			return p.SHA256
		}
	}
	return ""
}

// Command returns what an operator pastes into a root shell of the machine. The script is checked before it runs: by a certificate, by the
// pinned key, or by the digest.
func (s Site) Command(fetchPart, token, digest string) string {
	d := paste.Download{URL: s.URL(fetchPart)}
	switch s.FirstHopTrust {
	case PinnedTrust:
		d.PinnedKey = s.PinnedKey
	case PlainTrust:
		d.Digest = digest
	default:
		d.Resolve = s.resolve()
	}
	return d.Command(token)
}

// resolve is the value of curl's option --resolve, for a name that the machine cannot resolve; empty: it is not needed.
func (s Site) resolve() string {
	u, err := url.Parse(s.FirstHop)
	if err != nil || s.ResolveAddress == "" || net.ParseIP(u.Hostname()) != nil {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return u.Hostname() + ":" + port + ":" + s.ResolveAddress
}
