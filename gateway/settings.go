package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/authority/stepca"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/bootstrap/reach"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/logs/ship"
	"muster/gateway/internal/paste"
)

// Values of --issuer: who signs the nodes' certificates. The gateway's own serving certificate is never affected.
const (
	issuerBuiltIn = "builtin"
	issuerStepCA  = "step-ca"

	leastHistory    = 16 << 20 // bytes; less would not keep an hour of a small fleet
	leastLogsBuffer = 1 << 20  // bytes; a batch of a node must fit in

	stepCAFlags = "step-ca-" // begins the names of the flags that only --issuer step-ca needs
)

// settings are serve's flags. Each is also an environment variable MUSTER_<FLAG>; a flag wins.
type settings struct {
	data          string
	listen        string
	plainListen   string
	publicURL     string
	publicGiven   bool // by the operator, not made up from listen
	tlsCert       string
	tlsKey        string
	proxies       list
	addressHeader string // in which proxies give the client's address
	adminProxied  bool
	requireMTLS   bool
	certTTL       time.Duration
	renewGrace    time.Duration
	interval      time.Duration
	trustDomain   string
	masterKey     string
	issuer        string // issuerBuiltIn or issuerStepCA
	stepCA        stepca.Settings
	bootstrap     bootstrap.Settings
	retention     days          // of events; 0: for ever
	history       size          // of the file of samples; 0: none is kept
	sessionIdle   time.Duration // a session without a byte for so long ends; 0: none does
	sessionLimit  time.Duration // a session ends after so long
	logsBuffer    size          // of each rule of log shipping
	retireStale   days          // a node that is silent for so long is retired; 0: none is
	recordings    recordingSettings
	logLevel      string
	quota         size              // of the registry; 0: none
	maxBlob       size              // of the registry; 0: none
	given         map[string]string // flags that were set, by arguments or environment
	files         map[string]bool   // those of given that name a file; true: it has to be there at every start
	from          map[string]string // by flag: the variable that set it, where no argument did
	program       string            // how an operator calls this program
	agents        fs.FS             // <os>-<arch>/muster-agent; nil: what the program carries
}

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

// parseSettings reads serve's flags from the environment and then from the arguments, so that an argument wins. The help goes to out.
func parseSettings(args []string, getenv func(string) string, out io.Writer) (settings, error) {
	s := settings{program: cli.Program(getenv)}
	f := flag.NewFlagSet("serve", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&s.data, "data", defaultData(getenv), "`DIR` of the database, the keys and the socket; made if it is not there (mode 0700)")
	f.StringVar(&s.listen, "listen", ":7443", "`ADDR` of the TLS listener, which serves everything")
	f.StringVar(&s.plainListen, "plain-listen", "",
		"`ADDR` of a listener without TLS: the first hop, signed node requests, the origin of a proxy")
	f.StringVar(&s.publicURL, "public-url", "",
		"`URL` under which nodes reach this gateway; printed in commands, and its host goes into the certificate")
	f.StringVar(&s.tlsCert, "tls-cert", "",
		"PEM `FILE` with a certificate chain for --listen, reloaded when it changes; without it the gateway's own CA makes one")
	f.StringVar(&s.tlsKey, "tls-key", "", "PEM `FILE` with its key")
	f.Var(&s.proxies, "trusted-proxy", "`CIDR` of proxies whose forwarding headers count; may be repeated")
	f.StringVar(&s.addressHeader, "client-address-header", "",
		"`NAME` of the one header in which trusted proxies give the client's address, such as CF-Connecting-IP; "+
			"without it X-Forwarded-For and X-Real-IP count, and where they disagree the proxy's own address")
	f.BoolVar(&s.adminProxied, "admin-behind-proxy", false, "answer the admin API through a trusted proxy too")
	f.BoolVar(&s.requireMTLS, "require-mtls", false,
		"accept client certificates only; a signature is then good for a renewal and nothing else")
	f.DurationVar(&s.certTTL, "cert-ttl", 24*time.Hour, "how long a node's certificate lives")
	f.DurationVar(&s.renewGrace, "renew-grace", 72*time.Hour,
		"how long after its expiry a certificate may still renew; time in which no gateway ran does not count; 0: not at all")
	f.DurationVar(&s.interval, "heartbeat-interval", 30*time.Second, "how often nodes are asked to report, 5s to 10m")
	f.StringVar(&s.trustDomain, "trust-domain", "", "SPIFFE trust `DOMAIN` of a new CA; a random one without it")
	s.issuerFlags(f)
	s.bootstrapFlags(f)
	f.Var(&s.retention, "events-retention", "how long events are kept, a `DURATION` such as 90d; 0: for ever")
	s.history = 1 << 30
	f.Var(&s.history, "history", "how large the file with the nodes' history may get, a `SIZE` such as 5GiB; 0: keep none")
	f.DurationVar(&s.sessionIdle, "session-idle", 30*time.Minute, "end a session over which nothing went for so long; 0: end none for that")
	f.DurationVar(&s.sessionLimit, "session-limit", 12*time.Hour, "how long a session may last in any case, at most 24h")
	s.logsBuffer = ship.DefaultBound
	f.Var(&s.logsBuffer, "logs-buffer",
		"log lines that wait for a sink, for each rule of muster logs ship, a `SIZE` such as 1GiB; the oldest go first")
	f.Var(&s.retireStale, "retire-stale-after",
		"retire a node that was not heard from for a `DURATION` such as 14d, unless a person holds it; without it none is retired so")
	s.registryFlags(f)
	s.recordings.flags(f)
	f.StringVar(&s.masterKey, "master-key-file", "",
		"`FILE` with the key that seals secrets in the database; muster help settings says where it is otherwise")
	f.StringVar(&s.logLevel, "log-level", "info", "debug, info, warn or error")
	var err error
	if s.from, err = fromEnvironment(f, getenv); err != nil {
		return s, err
	}
	if err := f.Parse(args); err != nil {
		if err == flag.ErrHelp {
			fmt.Fprintf(out, serveHelp, defaultData(getenv))
			flagHelp(out, f)
		}
		return s, err
	}
	if f.NArg() > 0 {
		return s, fmt.Errorf("serve takes no argument %q", f.Arg(0))
	}
	for _, arg := range args {
		if name, _, _ := strings.Cut(arg, "="); strings.HasPrefix(name, "-") {
			delete(s.from, strings.TrimLeft(name, "-"))
		}
	}
	s.given = map[string]string{}
	s.files = map[string]bool{}
	f.Visit(func(one *flag.Flag) {
		s.given[one.Name] = one.Value.String()
		what, _ := flag.UnquoteUsage(one) // as its help calls the value
		if what == "FILE" && (s.issuer == issuerStepCA || !strings.HasPrefix(one.Name, stepCAFlags)) {
			s.files[one.Name] = one.Name != bootstrap.FlagCredentialFile // that one is sealed at a start, and may go then
		}
	})
	return s, s.check()
}

// issuerFlags adds the flags of --issuer. checkIssuer keeps them together: a flag of step-ca without --issuer step-ca is a mistake.
func (s *settings) issuerFlags(f *flag.FlagSet) {
	f.StringVar(&s.issuer, "issuer", issuerBuiltIn, "who signs the nodes' certificates: builtin or step-ca")
	f.StringVar(&s.stepCA.URL, "step-ca-url", "", "`URL` of step-ca, with a host from dnsNames in its ca.json")
	f.StringVar(&s.stepCA.RootFile, "step-ca-root", "", "PEM `FILE` with step-ca's root certificate")
	f.StringVar(&s.stepCA.Provisioner, "step-ca-provisioner", "", "`NAME` of a JWK provisioner, or with --step-ca-cert of an X5C one")
	f.StringVar(&s.stepCA.KeyFile, "step-ca-key", "", "`FILE` with the provisioner's private key: P-256, plain JWK or PEM")
	f.StringVar(&s.stepCA.CertFile, "step-ca-cert", "", "PEM `FILE` with the certificate of that key: an X5C provisioner")
}

// bootstrapFlags adds the flags of bootstrap scripts. Their names are constants of package bootstrap, whose errors name them.
func (s *settings) bootstrapFlags(f *flag.FlagSet) {
	b := &s.bootstrap
	b.InstallRuntime = true
	f.Var((*yesNo)(&b.InstallRuntime), bootstrap.FlagInstallRuntime,
		"bootstrap scripts install a container runtime where there is none of docker, podman, nerdctl; =false: they do not")
	f.StringVar(&b.RuntimePackage, bootstrap.FlagRuntimePackage, "docker.io", "its apt `PACKAGE`")
	f.StringVar(&b.ResolveAddress, bootstrap.FlagResolveAddress, "",
		"`IP` of the public URL's host, for machines that cannot resolve it; bootstrap scripts put it into /etc/hosts")
	f.StringVar(&b.Registry, bootstrap.FlagRegistry, "",
		"`HOST[:PORT]` of the container registry that bootstrap scripts make a machine trust and log in to")
	f.StringVar(&b.CredentialFile, bootstrap.FlagCredentialFile, "",
		"`FILE` with USERNAME:PASSWORD for it; sealed in the database, so the file may be deleted after a start. An empty file (/dev/null) "+
			"removes what is sealed; leaving the flag out does not")
}

// registryFlags adds the bounds of the OCI registry. Its errors name the flags.
func (s *settings) registryFlags(f *flag.FlagSet) {
	s.quota = 20 << 30
	s.maxBlob = 2 << 30
	f.Var(&s.quota, strings.TrimPrefix(artifact.SettingQuota, "--"),
		"what the registry may keep on disk in all, a `SIZE` such as 20GiB; 0: no limit")
	f.Var(&s.maxBlob, strings.TrimPrefix(artifact.SettingMaxBlob, "--"), "the largest blob that it takes, a `SIZE`; 0: no limit")
}

// fromEnvironment sets every flag that has a variable: MUSTER_<FLAG>, and for the flags of bootstrap also NODE_BOOTSTRAP_<FLAG>. It
// has to run before the arguments are read, so that they win. from says which variable set a flag.
func fromEnvironment(f *flag.FlagSet, getenv func(string) string) (from map[string]string, err error) {
	from = map[string]string{}
	f.VisitAll(func(one *flag.Flag) {
		suffix := strings.ToUpper(strings.ReplaceAll(one.Name, "-", "_"))
		name := "MUSTER_" + suffix
		value := getenv(name)
		if value == "" && strings.HasPrefix(suffix, "BOOTSTRAP_") { // settings for bootstrap scripts also go by this name
			name = "NODE_" + suffix
			value = getenv(name)
		}
		if value == "" || err != nil {
			return
		}
		if wrong := f.Set(one.Name, value); wrong != nil {
			err = fmt.Errorf("%s=%q: %w", name, value, wrong)
		}
		from[one.Name] = name
	})
	return from, err
}

// named says where a flag's value came from: the flag itself, or its variable.
func (s *settings) named(flag string) string {
	if name := s.from[flag]; name != "" {
		return name
	}
	return "--" + flag
}

// check refuses settings that cannot work, before anything is opened, and completes the public URL.
func (s *settings) check() error {
	switch {
	case s.data == "":
		return errors.New("nothing says where the data are: name the directory with --data DIR")
	case (s.tlsCert == "") != (s.tlsKey == ""):
		return fmt.Errorf("--tls-cert and --tls-key belong together")
	case s.interval < 5*time.Second || s.interval > 10*time.Minute:
		return fmt.Errorf("%s %s: write a value between 5s and 10m", s.named("heartbeat-interval"), s.interval)
	case s.certTTL < authority.MinTTL || s.certTTL > authority.MaxTTL:
		return fmt.Errorf("%s %s: write a value between 5s and 720h", s.named("cert-ttl"), s.certTTL)
	case s.retention < 0 || s.retention > 0 && time.Duration(s.retention) < time.Hour:
		return fmt.Errorf("%s %s: write 0 (for ever), or at least 1h", s.named("events-retention"), &s.retention)
	case s.history > 0 && s.history < leastHistory:
		return fmt.Errorf("%s %s: write 0 (none), or at least 16MiB", s.named("history"), &s.history)
	case s.sessionIdle != 0 && (s.sessionIdle < time.Minute || s.sessionIdle > wire.MaxSession):
		return fmt.Errorf("%s %s: write 0 (never), or a value between 1m and 24h", s.named("session-idle"), s.sessionIdle)
	case s.sessionLimit < time.Minute || s.sessionLimit > wire.MaxSession:
		return fmt.Errorf("%s %s: write a value between 1m and 24h", s.named("session-limit"), s.sessionLimit)
	case s.logsBuffer < leastLogsBuffer:
		return fmt.Errorf("%s %s: write at least 1MiB", s.named("logs-buffer"), &s.logsBuffer)
	case s.retireStale < 0 || s.retireStale > 0 && time.Duration(s.retireStale) < time.Hour:
		return fmt.Errorf("%s %s: write 0 (never), or at least 1h", s.named("retire-stale-after"), &s.retireStale)
	case s.renewGrace < 0:
		return fmt.Errorf("%s %s: write 0 or more", s.named("renew-grace"), s.renewGrace)
	case s.addressHeader != "" && len(s.proxies) == 0:
		return fmt.Errorf("%s needs a --trusted-proxy", s.named("client-address-header"))
	case s.adminProxied && len(s.proxies) == 0:
		return fmt.Errorf("%s needs a --trusted-proxy", s.named("admin-behind-proxy"))
	}
	if _, _, err := net.SplitHostPort(s.listen); err != nil {
		return fmt.Errorf("%s %q: write host:port or :port", s.named("listen"), s.listen)
	}
	if err := errors.Join(s.checkIssuer(), s.bootstrap.Check(s.named), s.recordings.check(s.named)); err != nil {
		return err
	}
	complete, err := s.reach().Complete(s.named("public-url"))
	s.publicURL = complete.PublicURL
	s.publicGiven = complete.PublicGiven
	return err
}

func (s *settings) checkIssuer() error {
	c := s.stepCA
	switch s.issuer {
	case issuerBuiltIn, "":
		for name, value := range s.given {
			left := s.given["issuer"] != "" && s.from[name] != "" // in a service's settings, by an earlier --issuer step-ca
			if strings.HasPrefix(name, stepCAFlags) && value != "" && !left {
				return fmt.Errorf("the --step-ca flags need --issuer step-ca")
			}
		}
		return nil
	case issuerStepCA:
		if c.URL == "" || c.RootFile == "" || c.Provisioner == "" || c.KeyFile == "" {
			return fmt.Errorf("--issuer step-ca needs --step-ca-url, --step-ca-root, --step-ca-provisioner and --step-ca-key")
		}
		return nil
	}
	return fmt.Errorf("--issuer %q: write builtin or step-ca", s.issuer)
}

// flagHelp writes each flag on a line of its own, and below it what it does.
func flagHelp(out io.Writer, f *flag.FlagSet) {
	f.VisitAll(func(one *flag.Flag) {
		value, text := flag.UnquoteUsage(one)
		if !slices.Contains([]string{"", "false", "0", "0s"}, one.DefValue) {
			text += " (default " + one.DefValue + ")"
		}
		fmt.Fprintln(out, strings.TrimRight("  --"+one.Name+" "+value, " "))
		screen.Pairs(out, cli.HelpColumns, [][]string{{"    ", text}})
	})
}

// reach is how the gateway was set up to be reached.
func (s *settings) reach() reach.Reach {
	return reach.Reach{
		PublicURL: s.publicURL, PublicGiven: s.publicGiven, Listen: s.listen, PlainListen: s.plainListen,
		OwnCertificate: s.tlsCert == "", Proxied: len(s.proxies) > 0,
	}
}

// muster is how an operator on this machine calls the program for this gateway, from whatever directory.
func (s *settings) muster() string {
	return s.program + " --data " + paste.Quote(datadir.Absolute(s.data))
}

// list is a flag that may be repeated, or hold several values with commas between.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(value string) error {
	*l = append(*l, strings.Split(value, ",")...)
	return nil
}

// days is a duration flag that takes whole days too, and 0 without a unit.
type days time.Duration

// String has days where they are whole, as they are written.
func (d *days) String() string {
	const day = 24 * time.Hour
	if n := time.Duration(*d); n == 0 || n%day != 0 {
		return n.String()
	}
	return strconv.Itoa(int(time.Duration(*d)/day)) + "d"
}

func (d *days) Set(value string) error {
	if value == "0" {
		*d = 0
		return nil
	}
	parsed, err := api.ParseDuration(value)
	*d = days(parsed)
	return err
}

// size is a number of bytes as a flag: a whole number with KiB, MiB, GiB or TiB, or without a unit.
type size int64

func (s *size) String() string {
	units := [...]string{"", "KiB", "MiB", "GiB", "TiB"}
	n := *s
	at := 0
	for n != 0 && n%1024 == 0 && at < len(units)-1 {
		n /= 1024
		at++
	}
	return strconv.FormatInt(int64(n), 10) + units[at]
}

func (s *size) Set(value string) error {
	digits := strings.TrimRight(value, "KMGTiB")
	shift := map[string]int{"": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}
	by, known := shift[value[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || !known || n > math.MaxInt64>>by {
		return errors.New("write a size such as 500MiB or 20GiB, or 0; muster help settings says what 0 means")
	}
	*s = size(n << by)
	return nil
}

// yesNo is a flag that takes every usual spelling of a yes and a no.
type yesNo bool

func (y *yesNo) String() string { return strconv.FormatBool(bool(*y)) }

// IsBoolFlag lets package flag take the flag without a value, for yes.
func (y *yesNo) IsBoolFlag() bool { return true }

func (y *yesNo) Set(value string) error {
	switch strings.ToLower(value) {
	case "true", "1", "yes", "on":
		*y = true
	case "false", "0", "no", "off":
		*y = false
	default:
		return errors.New("write true, 1, yes or on, or false, 0, no or off")
	}
	return nil
}
