package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"

	"muster"
	"muster/agent/wire"
	"muster/gateway/internal/bootstrap"
	"muster/store"
)

// bootstrapSettings are the flags of what bootstrap scripts do on machines.
type bootstrapSettings struct {
	install    bool
	runtime    string // apt package of a container runtime
	resolve    string // address of the public URL's host
	registry   string // HOST[:PORT]
	credential string // file with USERNAME:PASSWORD
}

func (s *settings) bootstrapFlags(f *flag.FlagSet) {
	b := &s.bootstrap
	f.BoolVar(&b.install, "bootstrap-install-container-runtime", false, "bootstrap scripts install a container runtime where there is none of docker, podman, nerdctl")
	f.StringVar(&b.runtime, "bootstrap-container-runtime-package", "docker.io", "its apt `PACKAGE`")
	f.StringVar(&b.resolve, "bootstrap-resolve-address", "", "`IP` of the public URL's host, for machines that cannot resolve it; bootstrap scripts put it into /etc/hosts")
	f.StringVar(&b.registry, "bootstrap-registry", "", "`HOST[:PORT]` of the container registry that bootstrap scripts make a machine trust and log in to")
	f.StringVar(&b.credential, "bootstrap-registry-credential", "", "`FILE` with USERNAME:PASSWORD for it; sealed in the database, so it may be removed after a start")
}

var (
	packageForm  = regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]{1,99}$`) // Debian policy 5.6.7
	registryForm = regexp.MustCompile(`^([0-9A-Za-z][0-9A-Za-z.-]{0,252}|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)
)

func (s *settings) checkBootstrap() error {
	switch b := s.bootstrap; {
	case !packageForm.MatchString(b.runtime):
		return fmt.Errorf("--bootstrap-container-runtime-package %.80q is not the name of a Debian package", b.runtime)
	case b.resolve != "" && net.ParseIP(b.resolve) == nil:
		return fmt.Errorf("--bootstrap-resolve-address %.80q is not an IP address", b.resolve)
	case b.registry != "" && !registryForm.MatchString(b.registry):
		return fmt.Errorf("--bootstrap-registry %.80q is not HOST or HOST:PORT", b.registry)
	case b.credential != "" && b.registry == "":
		return fmt.Errorf("--bootstrap-registry-credential needs a --bootstrap-registry")
	}
	return nil
}

// sealCredential takes the registry's credential over from its file.
func (g *gateway) sealCredential(ctx context.Context) error {
	b := g.settings.bootstrap
	if b.credential == "" {
		return nil
	}
	text, err := os.ReadFile(b.credential)
	if os.IsNotExist(err) { // removed after an earlier start: what is sealed goes on to serve
		g.log.Info("no file of --bootstrap-registry-credential: the sealed one serves, if there is one", "file", b.credential)
		return nil
	}
	if err != nil {
		return err
	}
	c, err := bootstrap.ParseRegistryCredential(b.registry, text)
	if err != nil {
		return fmt.Errorf("--bootstrap-registry-credential %s: %w", b.credential, err)
	}
	return g.bootstrap.SetRegistryCredential(ctx, c, store.Actor{Name: "gateway"})
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
		ReleaseKeys: set.ReleaseKeys, Agents: g.nodes.Platforms(), InstallRuntime: b.install, RuntimePackage: b.runtime, Registry: b.registry,
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

// guarded refuses tokens where none belongs before a listener's routes see the request.
func (g *gateway) guarded(mux *http.ServeMux) http.Handler { return g.nodes.Guard(g.info.Strict(mux)) }
