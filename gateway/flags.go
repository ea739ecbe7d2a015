package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"muster/agent/flags"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

const serveHelp = `muster serve runs the gateway, which nodes report to and operators ask. Its
database is embedded.

Data in %s, TLS on :7443 with its own CA:
  muster serve
With a certificate of your own:
  muster serve --public-url https://gw.example \
      --tls-cert fullchain.pem --tls-key key.pem
Behind a proxy or tunnel that ends TLS:
  muster serve --plain-listen 127.0.0.1:7480 --trusted-proxy 127.0.0.1
For yourself:
  muster serve --data ./.muster --listen 127.0.0.1:7443

Operators reach it over the socket DATA/muster.sock (muster --data DIR node ls)
or, from elsewhere, over HTTPS with MUSTER_URL and MUSTER_API_TOKEN. The first
start makes the account "operator" and shows its API token once; not under
systemd, whose journal would keep it: muster account create does.
muster service install makes it a service.

Flags (each is also an environment variable, --public-url is MUSTER_PUBLIC_URL):
`

// flagTable is the flags of serve, in the order of help. Those of bootstrap scripts also go by NODE_BOOTSTRAP_.
func flagTable() []flags.Flag {
	return []flags.Flag{
		{Name: "admin-behind-proxy", Off: true, Usage: "answer the admin API through a trusted proxy too"},
		{Name: "allocation-longest", Value: "DURATION", Usage: "the longest that an allocation of GPUs may last from now, such as 30d"},
		{Name: "allocation-ttl", Value: "DURATION", Usage: "how long an allocation lasts that asks for no time, a DURATION such as 24h"},
		{Name: "bootstrap-container-runtime-package", Alias: "NODE_BOOTSTRAP_CONTAINER_RUNTIME_PACKAGE", Value: "PACKAGE",
			Usage: "its apt PACKAGE"},
		{Name: "bootstrap-install-container-runtime", Alias: "NODE_BOOTSTRAP_INSTALL_CONTAINER_RUNTIME", Off: true,
			Usage: "bootstrap scripts install a container runtime if there is none of docker, podman, nerdctl; =false: they do not"},
		{Name: "bootstrap-registry", Alias: "NODE_BOOTSTRAP_REGISTRY", Value: "HOST[:PORT]",
			Usage: "HOST[:PORT] of the container registry that bootstrap scripts make a machine trust and log in to"},
		{Name: "bootstrap-registry-credential", Alias: "NODE_BOOTSTRAP_REGISTRY_CREDENTIAL", Value: "FILE",
			Usage: "FILE with USERNAME:PASSWORD for it; sealed in the database, so the file may be deleted after a start. An empty file " +
				"(/dev/null) removes what is sealed; leaving the flag out does not"},
		{Name: "bootstrap-resolve-address", Alias: "NODE_BOOTSTRAP_RESOLVE_ADDRESS", Value: "IP",
			Usage: "IP of the public URL's host, for machines that cannot resolve it; bootstrap scripts put it into /etc/hosts"},
		{Name: "cert-ttl", Value: "duration", Usage: "how long a node's certificate lives"},
		{Name: "client-address-header", Value: "NAME",
			Usage: "NAME of the one header in which trusted proxies give the client's address, such as CF-Connecting-IP; without it " +
				"X-Forwarded-For and X-Real-IP count, and where they disagree the proxy's own address"},
		{Name: "data", Value: "DIR", Usage: "DIR of the database, the keys and the socket; made if it is not there (mode 0700)"},
		{Name: "events-retention", Value: "DURATION", Zero: true, Usage: "how long events are kept, a DURATION such as 90d; 0: for ever"},
		{Name: "gateway-id", Value: "NAME", Usage: "NAME of this gateway among those on one --store; without it the machine's"},
		{Name: "any-clock", Usage: "take the place of the active gateway even if its clock is more than 1s from this machine's"},
		{Name: "heartbeat-interval", Value: "duration", Usage: "how often nodes are asked to report, 5s to 10m"},
		{Name: "history", Value: "SIZE", Usage: "how large the file with the nodes' history may get, a SIZE such as 5GiB; 0: keep none"},
		{Name: "issuer", Value: "string", Usage: "who signs the nodes' certificates: builtin or step-ca"},
		{Name: "listen", Value: "ADDR", Usage: "ADDR of the TLS listener, which serves everything"},
		{Name: "log-level", Value: "string", Usage: "debug, info, warn or error"},
		{Name: "logs-buffer", Value: "SIZE",
			Usage: "log lines that wait for a sink, for each rule of muster logs ship, a SIZE such as 1GiB; the oldest go first"},
		{Name: "maas-ca", Value: "FILE", Usage: "PEM FILE with the CA of MAAS, where the machine's own roots do not have it"},
		{Name: "maas-deploy-timeout", Value: "DURATION",
			Usage: "until when the agent of a machine that MAAS deploys must have been heard, 5m to 24h"},
		{Name: "maas-key-file", Value: "FILE", Usage: "FILE with the API key of MAAS, as maas apikey prints it"},
		{Name: "maas-series", Value: "SERIES",
			Usage: "the system that MAAS installs, a SERIES such as ubuntu/noble; without it MAAS's own default"},
		{Name: "maas-tenant", Value: "TENANT", Usage: "whose nodes the machines of MAAS are"},
		{Name: "maas-url", Value: "URL", Usage: "URL of MAAS, which then owns bare metal: muster help maas"},
		{Name: "master-key-file", Value: "FILE",
			Usage: "FILE with the key that seals secrets in the database; muster help settings says where it is otherwise"},
		{Name: "peer-listen", Value: "ADDR",
			Usage: "ADDR on which this gateway serves the others on its --store, as they reach it, such as 10.0.0.5:7444"},
		{Name: "plain-listen", Value: "ADDR", Usage: "ADDR of a listener without TLS: the first hop, signed node requests, a proxy's origin"},
		{Name: "public-url", Value: "URL",
			Usage: "URL under which nodes reach this gateway; printed in commands, and its host goes into the certificate"},
		{Name: "record-shells", Off: true, Usage: "record what the terminals of shells show; =false: do not"},
		{Name: "recording-max", Value: "SIZE", Usage: "the largest recording, a SIZE: a session that would need more ends"},
		{Name: "recordings-keep", Value: "DURATION", Zero: true, Usage: "how long a recording is kept, a DURATION such as 90d; 0: for ever"},
		{Name: "recordings-quota", Value: "SIZE",
			Usage: "what all recordings may take on disk, a SIZE such as 20GiB: the oldest go first; 0: no limit"},
		{Name: "registry-max-blob", Value: "SIZE", Usage: "the largest blob that it takes, a SIZE; 0: no limit"},
		{Name: "registry-quota", Value: "SIZE", Usage: "what the registry may keep on disk in all, a SIZE such as 20GiB; 0: no limit"},
		{Name: "renew-grace", Value: "duration", Zero: true,
			Usage: "how long after its expiry a certificate may still renew; time in which no gateway ran does not count; 0: not at all"},
		{Name: "require-mtls", Off: true, Usage: "accept client certificates only; a signature is then good for a renewal and nothing else"},
		{Name: "retire-stale-after", Value: "DURATION", Zero: true,
			Usage: "retire a node that was not heard from for a DURATION such as 14d, unless a person holds it; without it none is " +
				"retired so"},
		{Name: "session-idle", Value: "duration", Zero: true, Usage: "end a session over which nothing went for so long; 0: end none for that"},
		{Name: "session-limit", Value: "duration", Usage: "how long a session may last in any case, at most 24h"},
		{Name: "step-ca-cert", Value: "FILE", Usage: "PEM FILE with the certificate of that key: an X5C provisioner"},
		{Name: "step-ca-key", Value: "FILE", Usage: "FILE with the provisioner's private key: P-256, plain JWK or PEM"},
		{Name: "step-ca-provisioner", Value: "NAME", Usage: "NAME of a JWK provisioner, or with --step-ca-cert of an X5C one"},
		{Name: "step-ca-root", Value: "FILE", Usage: "PEM FILE with step-ca's root certificate"},
		{Name: "step-ca-url", Value: "URL", Usage: "URL of step-ca, with a host from dnsNames in its ca.json"},
		{Name: "store", Value: "URL",
			Usage: "URL of a database that several gateways share, rqlite://HOST:PORT,HOST:PORT,HOST:PORT: one gateway is active, the others " +
				"stand by (muster help standby); without it the database is in --data"},
		{Name: "store-ca", Value: "FILE", Usage: "PEM FILE with the CA of the nodes of --store"},
		{Name: "store-cert", Value: "FILE", Usage: "PEM FILE with the certificate that this gateway shows to them"},
		{Name: "store-key", Value: "FILE", Usage: "PEM FILE with its key"},
		{Name: "store-password-file", Value: "FILE", Usage: "FILE with the password of USER in rqlite://USER@HOST:PORT"},
		{Name: "tls-cert", Value: "FILE",
			Usage: "PEM FILE with a certificate chain for --listen, reloaded when it changes; without it the gateway's own CA makes one"},
		{Name: "tls-key", Value: "FILE", Usage: "PEM FILE with its key"},
		{Name: "trust-domain", Value: "DOMAIN", Usage: "SPIFFE trust DOMAIN of a new CA; a random one without it"},
		{Name: "trusted-proxy", Value: "CIDR", Usage: "CIDR of proxies whose forwarding headers count; may be repeated"},
	}
}

// printHelp writes each flag on a line of its own, and below it what it does. usual are the values if nothing is given.
func printHelp(out io.Writer, data string, usual map[string]string) {
	fmt.Fprintf(out, serveHelp, data)
	for _, f := range flagTable() {
		text := f.Usage
		if is := usual[f.Name]; !slices.Contains([]string{"", "false", "0", "0s"}, is) {
			text += " (default " + is + ")"
		}
		fmt.Fprintln(out, strings.TrimRight("  --"+f.Name+" "+f.Value, " "))
		screen.Pairs(out, cli.HelpColumns, [][]string{{"    ", text}})
	}
}
