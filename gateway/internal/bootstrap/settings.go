package bootstrap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"

	"muster"
	"muster/agent/wire"
	"muster/gateway/internal/bootstrap/reach"
)

// Names of the settings, as flags of muster serve.
const (
	FlagInstallRuntime = "bootstrap-install-container-runtime"
	FlagRuntimePackage = "bootstrap-container-runtime-package"
	FlagResolveAddress = "bootstrap-resolve-address"
	FlagRegistry       = "bootstrap-registry"
	FlagCredentialFile = "bootstrap-registry-credential"
)

// Settings say what scripts do on the machines of nodes.
type Settings struct {
	InstallRuntime bool   `flag:"bootstrap-install-container-runtime"`
	RuntimePackage string `flag:"bootstrap-container-runtime-package"` // apt's
	ResolveAddress string `flag:"bootstrap-resolve-address"`           // of the public URL's host
	Registry       string `flag:"bootstrap-registry"`                  // HOST[:PORT]
	CredentialFile string `flag:"bootstrap-registry-credential"`       // with USERNAME:PASSWORD
}

var (
	packageForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]{1,99}$`) // Debian policy 5.6.7
	hostForm    = regexp.MustCompile(`^(?i:[0-9a-z]([0-9a-z-]{0,61}[0-9a-z])?)(?i:\.[0-9a-z]([0-9a-z-]{0,61}[0-9a-z])?)*$`)
)

// Check returns an error for a setting that makes no sense. named says how the operator set a flag.
func (s Settings) Check(named func(flag string) string) error {
	switch {
	case !packageForm.MatchString(s.RuntimePackage):
		return fmt.Errorf("%s %.80q is not the name of a Debian package", named(FlagRuntimePackage), s.RuntimePackage)
	case s.ResolveAddress != "" && !hostAddress(s.ResolveAddress):
		return fmt.Errorf("%s %.80q is not the IP address of a machine", named(FlagResolveAddress), s.ResolveAddress)
	case s.Registry != "" && !hostPort(s.Registry):
		return fmt.Errorf("%s %.80q is not HOST or HOST:PORT", named(FlagRegistry), s.Registry)
	case s.CredentialFile != "" && s.Registry == "" && !empty(s.CredentialFile):
		return fmt.Errorf("%s needs a --%s; with an empty file (/dev/null) it may stand alone, and ends the credential that is sealed",
			named(FlagCredentialFile), FlagRegistry)
	}
	return nil
}

// empty is true for a file that exists and holds only white space.
func empty(file string) bool {
	text, err := os.ReadFile(file)
	return err == nil && len(bytes.TrimSpace(text)) == 0
}

// hostAddress accepts an address that one machine may have. It refuses "this network" (RFC 1122 section 3.2.1.3) and reserved addresses
// (240.0.0.0/4, RFC 1112 section 4), which include broadcast.
func hostAddress(text string) bool {
	ip := net.ParseIP(text)
	if v4 := ip.To4(); v4 != nil && (v4[0] == 0 || v4[0] >= 240) {
		return false
	}
	return ip != nil && !ip.IsUnspecified() && !ip.IsMulticast()
}

// hostPort accepts HOST, HOST:PORT and the same with an IPv6 address in brackets.
func hostPort(text string) bool {
	host := text
	port := "443"
	if at := strings.LastIndexByte(text, ':'); at > strings.LastIndexByte(text, ']') {
		host = text[:at]
		port = text[at+1:]
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return false
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		return ok && strings.Contains(inner, ":") && net.ParseIP(inner) != nil
	}
	// No name ends with a number (RFC 3696 section 2), so this is an IPv4 address or a mistake.
	if numeric(host[strings.LastIndexByte(host, '.')+1:]) {
		ip := net.ParseIP(host)
		return ip != nil && hostAddress(host)
	}
	return len(host) <= 253 && hostForm.MatchString(host)
}

func numeric(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// Gateway is what scripts must know about the gateway, besides the settings.
type Gateway struct {
	Reach     reach.Reach
	PinnedKey string // of the serving certificate, if the gateway's own CA issued that
	RootPin   string
	Roots     string          // PEM bundle
	TrustSet  []byte          // payload of the newest one
	Agents    []wire.Platform // that the gateway carries
}

// Site returns what a script says about this gateway now.
func (s Settings) Site(g Gateway) (Site, error) {
	var set wire.TrustSet
	if err := json.Unmarshal(g.TrustSet, &set); err != nil {
		return Site{}, err
	}
	node := g.Reach.NodeURL()
	site := Site{
		NodeURL: node, OwnCertificate: g.Reach.CertificateAt(node) == muster.OwnCertificate, Direct: g.Reach.EndsTLS(node),
		RootPin: g.RootPin, Roots: g.Roots, TrustNumber: set.Number, TrustKey: set.TrustKey,
		AnswerKeys: set.AnswerKeys, TaskKeys: set.TaskKeys, ReleaseKeys: set.ReleaseKeys, Agents: g.Agents,
		InstallRuntime: s.InstallRuntime, RuntimePackage: s.RuntimePackage, Registry: s.Registry,
	}
	if u, err := url.Parse(node); err == nil && net.ParseIP(u.Hostname()) == nil { // an address needs no override
		site.ResolveAddress = s.ResolveAddress
	}
	hop, meets := g.Reach.FirstHop(site.ResolveAddress)
	site.FirstHop = hop
	site.FirstHopTrust = Trust(meets)
	if site.FirstHopTrust == PinnedTrust {
		site.PinnedKey = g.PinnedKey
	}
	return site, nil
}
