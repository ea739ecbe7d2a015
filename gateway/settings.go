package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"muster/agent/flags"
	"muster/agent/wire"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/authority/stepca"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/bootstrap/reach"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cluster"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/logs/ship"
	"muster/gateway/internal/maas"
	"muster/gateway/internal/paste"
	"muster/gateway/internal/session/recording"
)

// Values of --issuer: who signs the nodes' certificates. The gateway's own serving certificate is never affected.
const (
	issuerBuiltIn = "builtin"
	issuerStepCA  = "step-ca"

	leastHistory    = 16 << 20 // bytes; less would not keep an hour of a small fleet
	leastLogsBuffer = 1 << 20  // bytes; a batch of a node must fit in

	stepCAFlags = "step-ca-" // begins the names of the flags that only --issuer step-ca needs
)

// settings are serve's flags, each by the name of its field.
type settings struct {
	Data                string
	Listen              string
	PlainListen         string
	PublicURL           string
	TLSCert             string
	TLSKey              string
	TrustedProxy        []string
	ClientAddressHeader string // in which proxies give the client's address
	AdminBehindProxy    bool
	RequireMTLS         bool
	CertTTL             time.Duration
	RenewGrace          time.Duration
	HeartbeatInterval   time.Duration
	TrustDomain         string
	MasterKeyFile       string
	Issuer              string // issuerBuiltIn or issuerStepCA
	StepCA              stepca.Settings
	Bootstrap           bootstrap.Settings
	EventsRetention     days          // 0: for ever
	History             size          // of the file of samples; 0: none is kept
	SessionIdle         time.Duration // a session without a byte for so long ends; 0: none does
	SessionLimit        time.Duration // a session ends after so long
	LogsBuffer          size          // of each rule of log shipping
	RetireStaleAfter    days          // a node that is silent for so long is retired; 0: none is
	RecordShells        bool
	RecordingsKeep      days // 0: for ever
	RecordingsQuota     size // of all; 0: none
	RecordingMax        size // of one
	AllocationTTL       days // of an allocation that asks for no time
	AllocationLongest   days // that an allocation may end after, from now
	MAAS                maas.Settings
	LogLevel            string
	RegistryQuota       size // 0: none
	RegistryMaxBlob     size // 0: none
	Cluster             cluster.Settings

	publicGiven bool // the public URL is the operator's, not made up from Listen
	called      *flags.Set
	given       map[string]string // flags that were set, by arguments or environment
	files       map[string]bool   // those of given that name a file; true: it has to be there at every start
	program     string            // how an operator calls this program
	agents      fs.FS             // <os>-<arch>/muster-agent; nil: what the program carries
}

// usualSettings returns the defaults.
func usualSettings(getenv func(string) string) settings {
	return settings{
		Data: defaultData(getenv), Listen: ":7443", CertTTL: 24 * time.Hour, RenewGrace: 72 * time.Hour, HeartbeatInterval: wire.UsualInterval,
		Issuer: issuerBuiltIn, Bootstrap: bootstrap.Settings{InstallRuntime: true, RuntimePackage: "docker.io"}, History: 1 << 30,
		SessionIdle: 30 * time.Minute, SessionLimit: 12 * time.Hour, LogsBuffer: ship.DefaultBound, RecordShells: true,
		RecordingsKeep: days(90 * 24 * time.Hour), RecordingsQuota: 20 << 30, RecordingMax: 256 << 20, LogLevel: "info",
		AllocationTTL: days(24 * time.Hour), AllocationLongest: days(30 * 24 * time.Hour), MAAS: maas.UsualSettings(),
		RegistryQuota: 20 << 30, RegistryMaxBlob: 2 << 30, Cluster: cluster.Settings{PeerListen: ":7444"},
		program: cli.Program(getenv), given: map[string]string{}, files: map[string]bool{},
	}
}

// parseSettings reads serve's flags. The help goes to out.
func parseSettings(args []string, getenv func(string) string, out io.Writer) (settings, error) {
	s := usualSettings(getenv)
	s.called = &flags.Set{All: flagTable(), Getenv: getenv}
	words, behind, err := s.called.Parse(args)
	if err == flags.ErrHelp {
		printHelp(out, s.Data, s.called.Texts(&s))
	}
	if err != nil {
		return s, err
	}
	if words = append(words, behind...); len(words) > 0 {
		return s, fmt.Errorf("serve takes no argument %q", words[0])
	}
	if err := s.called.Into(&s); err != nil {
		return s, err
	}
	texts := s.called.Texts(&s)
	for _, f := range s.called.All {
		if !s.called.Given(f.Name) && s.called.Text(f.Name) == "" {
			continue
		}
		s.given[f.Name] = texts[f.Name]
		if f.Value == "FILE" && (s.Issuer == issuerStepCA || !strings.HasPrefix(f.Name, stepCAFlags)) {
			s.files[f.Name] = f.Name != bootstrap.FlagCredentialFile // that one is sealed at a start, and may go then
		}
	}
	return s, s.check()
}

// named says where a flag's value came from: the flag itself, or its variable.
func (s *settings) named(flag string) string { return s.called.Source(flag) }

// check refuses settings that cannot work, before anything is opened, and completes the public URL.
func (s *settings) check() error {
	switch {
	case s.Data == "":
		return errors.New("nothing says where the data are: name the directory with --data DIR")
	case (s.TLSCert == "") != (s.TLSKey == ""):
		return fmt.Errorf("--tls-cert and --tls-key belong together")
	case s.HeartbeatInterval < 5*time.Second || s.HeartbeatInterval > 10*time.Minute:
		return fmt.Errorf("%s %s: write a value between 5s and 10m", s.named("heartbeat-interval"), s.HeartbeatInterval)
	case s.CertTTL < authority.MinTTL || s.CertTTL > authority.MaxTTL:
		return fmt.Errorf("%s %s: write a value between 5s and 720h", s.named("cert-ttl"), s.CertTTL)
	case time.Duration(s.AllocationTTL) < time.Minute || s.AllocationTTL > s.AllocationLongest:
		return fmt.Errorf("%s %s: write at least 1m, and no more than --allocation-longest", s.named("allocation-ttl"), s.AllocationTTL)
	case s.EventsRetention > 0 && time.Duration(s.EventsRetention) < time.Hour:
		return fmt.Errorf("%s %s: write 0 (for ever), or at least 1h", s.named("events-retention"), s.EventsRetention)
	case s.History > 0 && s.History < leastHistory:
		return fmt.Errorf("%s %s: write 0 (none), or at least 16MiB", s.named("history"), s.History)
	case s.SessionIdle != 0 && (s.SessionIdle < time.Minute || s.SessionIdle > wire.MaxSession):
		return fmt.Errorf("%s %s: write 0 (never), or a value between 1m and 24h", s.named("session-idle"), s.SessionIdle)
	case s.SessionLimit < time.Minute || s.SessionLimit > wire.MaxSession:
		return fmt.Errorf("%s %s: write a value between 1m and 24h", s.named("session-limit"), s.SessionLimit)
	case s.LogsBuffer < leastLogsBuffer:
		return fmt.Errorf("%s %s: write at least 1MiB", s.named("logs-buffer"), s.LogsBuffer)
	case s.RetireStaleAfter > 0 && time.Duration(s.RetireStaleAfter) < time.Hour:
		return fmt.Errorf("%s %s: write 0 (never), or at least 1h", s.named("retire-stale-after"), s.RetireStaleAfter)
	case s.RecordingsKeep > 0 && time.Duration(s.RecordingsKeep) < time.Hour:
		return fmt.Errorf("%s %s: write 0 (for ever), or at least 1h", s.named("recordings-keep"), s.RecordingsKeep)
	case s.RecordingMax < recording.Least:
		return fmt.Errorf("%s %s: write at least 64KiB", s.named("recording-max"), s.RecordingMax)
	case s.RecordingsQuota > 0 && s.RecordingsQuota < s.RecordingMax:
		return errors.New(s.named("recordings-quota") + " is less than the " + s.RecordingMax.String() + " of one recording (--recording-max)")
	case s.ClientAddressHeader != "" && len(s.TrustedProxy) == 0:
		return fmt.Errorf("%s needs a --trusted-proxy", s.named("client-address-header"))
	case s.AdminBehindProxy && len(s.TrustedProxy) == 0:
		return fmt.Errorf("%s needs a --trusted-proxy", s.named("admin-behind-proxy"))
	}
	if _, _, err := net.SplitHostPort(s.Listen); err != nil {
		return fmt.Errorf("%s %q: write host:port or :port", s.named("listen"), s.Listen)
	}
	if err := errors.Join(s.checkIssuer(), s.Bootstrap.Check(s.named), s.Cluster.Check(s.named), s.MAAS.Check(s.named)); err != nil {
		return err
	}
	complete, err := s.reach().Complete(s.named("public-url"))
	s.PublicURL = complete.PublicURL
	s.publicGiven = complete.PublicGiven
	return err
}

func (s *settings) checkIssuer() error {
	c := s.StepCA
	switch s.Issuer {
	case issuerBuiltIn, "":
		for name, value := range s.given {
			left := s.given["issuer"] != "" && !s.called.Given(name) // in a service's settings, by an earlier --issuer step-ca
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
	return fmt.Errorf("--issuer %q: write builtin or step-ca", s.Issuer)
}

// reach is how the gateway was set up to be reached.
func (s *settings) reach() reach.Reach {
	return reach.Reach{
		PublicURL: s.PublicURL, PublicGiven: s.publicGiven, Listen: s.Listen, PlainListen: s.PlainListen,
		OwnCertificate: s.TLSCert == "", Proxied: len(s.TrustedProxy) > 0,
	}
}

// registryFolder is where the registry's blobs lie.
func (s *settings) registryFolder() string { return filepath.Join(s.Data, datadir.Registry) }

// muster is how an operator on this machine calls the program for this gateway, from whatever directory.
func (s *settings) muster() string {
	return s.program + " --data " + paste.Quote(datadir.Absolute(s.Data))
}

// days is a duration that is written in whole days if it has no part of one.
type days time.Duration

func (d days) String() string {
	const day = 24 * time.Hour
	if n := time.Duration(d); n == 0 || n%day != 0 {
		return n.String()
	}
	return strconv.Itoa(int(time.Duration(d)/day)) + "d"
}

// size is a number of bytes as a flag: a whole number with KiB, MiB, GiB or TiB, or without a unit.
type size int64

func (s size) String() string {
	units := [...]string{"", "KiB", "MiB", "GiB", "TiB"}
	n := s
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
