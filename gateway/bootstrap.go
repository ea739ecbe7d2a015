package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"

	"muster"
	"muster/agent/wire"
	"muster/gateway/internal/bootstrap"
	"muster/store"
)

// bootstrapSettings are the flags of what bootstrap scripts do on machines.
type bootstrapSettings struct {
	install    yesNo
	runtime    string // apt package of a container runtime
	resolve    string // address of the public URL's host
	registry   string // HOST[:PORT]
	credential string // file with USERNAME:PASSWORD
}

func (s *settings) bootstrapFlags(f *flag.FlagSet) {
	b := &s.bootstrap
	b.install = true
	f.Var(&b.install, "bootstrap-install-container-runtime",
		"bootstrap scripts install a container runtime where there is none of docker, podman, nerdctl; =false: they do not")
	f.StringVar(&b.runtime, "bootstrap-container-runtime-package", "docker.io", "its apt `PACKAGE`")
	f.StringVar(&b.resolve, "bootstrap-resolve-address", "", "`IP` of the public URL's host, for machines that cannot resolve it; bootstrap scripts put it into /etc/hosts")
	f.StringVar(&b.registry, "bootstrap-registry", "", "`HOST[:PORT]` of the container registry that bootstrap scripts make a machine trust and log in to")
	f.StringVar(&b.credential, "bootstrap-registry-credential", "", "`FILE` with USERNAME:PASSWORD for it; sealed in the database, so it may be removed after a start. An empty one (/dev/null) ends what is sealed; to leave this out does not")
}

var (
	packageForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]{1,99}$`) // Debian policy 5.6.7
	hostForm    = regexp.MustCompile(`^(?i:[0-9a-z]([0-9a-z-]{0,61}[0-9a-z])?)(?i:\.[0-9a-z]([0-9a-z-]{0,61}[0-9a-z])?)*$`)
)

func (s *settings) checkBootstrap() error {
	switch b := s.bootstrap; {
	case !packageForm.MatchString(b.runtime):
		return fmt.Errorf("%s %.80q is not the name of a Debian package", s.named("bootstrap-container-runtime-package"), b.runtime)
	case b.resolve != "" && !hostAddress(b.resolve):
		return fmt.Errorf("%s %.80q is not the IP address of a machine", s.named("bootstrap-resolve-address"), b.resolve)
	case b.registry != "" && !hostPort(b.registry):
		return fmt.Errorf("%s %.80q is not HOST or HOST:PORT", s.named("bootstrap-registry"), b.registry)
	case b.credential != "" && b.registry == "" && !empty(b.credential):
		return fmt.Errorf("%s needs a --bootstrap-registry; with an empty file (/dev/null) it may stand alone, and ends the credential that is sealed",
			s.named("bootstrap-registry-credential"))
	}
	return nil
}

// empty tells a file that is there and holds nothing.
func empty(file string) bool {
	text, err := os.ReadFile(file)
	return err == nil && len(bytes.TrimSpace(text)) == 0
}

// hostAddress accepts what one machine may have as its address: not "this network" (RFC 1122 section 3.2.1.3) and not what is
// reserved (240.0.0.0/4, RFC 1112 section 4), of which broadcast is one.
func hostAddress(text string) bool {
	ip := net.ParseIP(text)
	if v4 := ip.To4(); v4 != nil && (v4[0] == 0 || v4[0] >= 240) {
		return false
	}
	return ip != nil && !ip.IsUnspecified() && !ip.IsMulticast()
}

// hostPort accepts HOST, HOST:PORT and the same with an IPv6 address in brackets.
func hostPort(text string) bool {
	host, port := text, "443"
	if at := strings.LastIndexByte(text, ':'); at > strings.LastIndexByte(text, ']') {
		host, port = text[:at], text[at+1:]
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return false
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		return ok && strings.Contains(inner, ":") && net.ParseIP(inner) != nil
	}
	if numeric(host[strings.LastIndexByte(host, '.')+1:]) { // no name ends so: it is an IPv4 address or a slip (RFC 3696 section 2)
		ip := net.ParseIP(host)
		return ip != nil && hostAddress(host)
	}
	return len(host) <= 253 && hostForm.MatchString(host)
}

func numeric(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// sealCredential takes the registry's credential over from its file, which may be gone once it is sealed. An empty file ends it.
func (g *gateway) sealCredential(ctx context.Context) error {
	b := g.settings.bootstrap
	if b.credential == "" {
		return g.credentialLeft(ctx)
	}
	text, err := os.ReadFile(b.credential)
	switch {
	case os.IsNotExist(err):
		return g.sealedCredential(ctx)
	case err != nil:
		return fmt.Errorf("%s: %w", g.settings.named("bootstrap-registry-credential"), err)
	case len(bytes.TrimSpace(text)) == 0:
		g.log.Warn("the registry's credential is removed: its file is empty", "file", b.credential)
		return g.bootstrap.DropRegistryCredential(ctx, store.Actor{Name: "gateway"})
	}
	c, err := bootstrap.ParseRegistryCredential(b.registry, text)
	if err != nil {
		return fmt.Errorf("%s %s: %w", g.settings.named("bootstrap-registry-credential"), b.credential, err)
	}
	if info, err := os.Stat(b.credential); err == nil && info.Mode().Perm()&0o077 != 0 {
		g.log.Warn("others than its owner can read the registry's credential: chmod 600 it, or remove it, for it is sealed now", "file", b.credential)
	}
	return g.bootstrap.SetRegistryCredential(ctx, c, store.Actor{Name: "gateway"})
}

// credentialLeft warns of a credential that outlived its setting: to leave that out ends nothing.
func (g *gateway) credentialLeft(ctx context.Context) error {
	sealed, err := g.bootstrap.SealedRegistry(ctx)
	if err != nil || sealed == "" {
		return err
	}
	const end = "start once with --bootstrap-registry-credential /dev/null"
	if sealed == g.settings.bootstrap.registry {
		g.log.Warn("--bootstrap-registry-credential is left out, and the credential that is sealed from an earlier start goes on serving", "registry", sealed, "to end it", end)
		return nil
	}
	g.log.Warn("a registry's credential is still sealed from an earlier start, though --bootstrap-registry does not name that registry", "registry", sealed, "to end it", end)
	return nil
}

// unmarkedPSKs says what an earlier gateway left out.
func (g *gateway) unmarkedPSKs(ctx context.Context) error {
	ids, err := g.bootstrap.Unmarked(ctx)
	for _, id := range ids {
		g.log.Info("this PSK was set by an earlier gateway: it goes on working, but is not recognized where it is pasted as a name or a label",
			"psk", id, "to change that", "set it once more (muster psk set), or make another (muster psk rotate)")
	}
	return err
}

// sealedCredential: a file that is not there is one that was removed after an earlier start, or a wrong path.
func (g *gateway) sealedCredential(ctx context.Context) error {
	b := g.settings.bootstrap
	sealed, err := g.bootstrap.SealedRegistry(ctx)
	if err != nil {
		return err
	}
	if sealed == "" || sealed != b.registry {
		return fmt.Errorf("%s: there is no file %s, and no credential for %s is sealed from an earlier start: write USERNAME:PASSWORD into it, or leave the setting out; to end one that is sealed, name an empty file (/dev/null)",
			g.settings.named("bootstrap-registry-credential"), b.credential, b.registry)
	}
	g.log.Info("no file of --bootstrap-registry-credential: the sealed one serves", "file", b.credential)
	return nil
}

// site is what a bootstrap script says of this gateway now.
func (g *gateway) site() (bootstrap.Site, error) {
	var set wire.TrustSet
	sets := g.authority.TrustSets()
	if err := json.Unmarshal(sets[len(sets)-1].Payload, &set); err != nil {
		return bootstrap.Site{}, err
	}
	nodeURL := g.nodeURL()
	b := g.settings.bootstrap
	site := bootstrap.Site{
		NodeURL: nodeURL, OwnCertificate: g.certificateAt(nodeURL) == muster.OwnCertificate, RootPin: g.authority.RootPin(),
		Roots: g.authority.RootPEM(), TrustNumber: set.Number, TrustKey: set.TrustKey, AnswerKeys: set.AnswerKeys, TaskKeys: set.TaskKeys,
		ReleaseKeys: set.ReleaseKeys, Direct: g.endsTLS(nodeURL), Agents: g.nodes.Platforms(), InstallRuntime: bool(b.install), RuntimePackage: b.runtime, Registry: b.registry,
	}
	if u, err := url.Parse(nodeURL); err == nil && net.ParseIP(u.Hostname()) == nil { // an address needs no override
		site.ResolveAddress = b.resolve
	}
	site.FirstHop, site.FirstHopTrust = g.firstHop(site)
	if site.FirstHopTrust == bootstrap.PinnedTrust {
		site.PinnedKey = g.serving.PinnedPublicKey()
	}
	return site, nil
}

// nodeURL is where nodes reach this gateway over TLS: the public URL, or the own TLS port on its host where that is plain HTTP.
func (g *gateway) nodeURL() string {
	u, err := url.Parse(g.settings.publicURL)
	if err != nil || u.Scheme == "https" {
		return g.settings.publicURL
	}
	_, tlsPort, _ := net.SplitHostPort(g.settings.listen)
	return "https://" + net.JoinHostPort(u.Hostname(), tlsPort)
}

// firstHop is where a machine that trusts nothing yet fetches its script: over plain HTTP where its name does not resolve or the
// public URL says so, else over TLS.
func (g *gateway) firstHop(site bootstrap.Site) (string, bootstrap.Trust) {
	if site.ResolveAddress != "" {
		if host, plain, err := net.SplitHostPort(g.settings.plainListen); err == nil && serves(host, site.ResolveAddress) {
			return "http://" + net.JoinHostPort(site.ResolveAddress, plain), bootstrap.PlainTrust
		}
		if site.OwnCertificate {
			u, _ := url.Parse(site.NodeURL)
			return "https://" + net.JoinHostPort(site.ResolveAddress, portOf(u)), bootstrap.PinnedTrust
		}
		return site.NodeURL, bootstrap.SystemTrust
	}
	switch g.certificateAt(g.settings.publicURL) {
	case muster.SystemCertificate:
		return g.settings.publicURL, bootstrap.SystemTrust
	case muster.OwnCertificate:
		return g.settings.publicURL, bootstrap.PinnedTrust
	}
	return g.settings.publicURL, bootstrap.PlainTrust
}

// serves tells whether a listener on host answers at address.
func serves(host, address string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && (ip.IsUnspecified() || ip.Equal(net.ParseIP(address)))
}
