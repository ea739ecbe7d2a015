package main

import (
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

// leastInterval is the fastest pace that --interval takes.
const leastInterval = 100 * time.Millisecond

// The bounds of --gpu-interval.
const (
	leastGPUInterval = time.Second
	mostGPUInterval  = time.Hour
)

const runExamples = `  MUSTER_TOKEN=mse_... muster-agent run --gateway https://gateway.example:7443
  muster-agent run --gateway https://gateway.example --token-file /run/token --name gpu-1 --label tier=sovereign
  pass show fleet/psk | muster-agent run --gateway https://10.0.0.5:7443 --token-file - --root-pin sha256:...

Once this machine is enrolled no token is needed any more: the same command goes on where it was. A token in
--token can be read by every user of this machine while the agent runs: MUSTER_TOKEN or --token-file cannot.
`

// options is what run was called with.
type options struct {
	gateway, state, name, provider, instanceID string
	token, tokenFile, tokenVariable            string
	tokenShown                                 bool // --token holds what may be a pre-shared key
	nvidiaSMI                                  string
	noGPU                                      bool
	labels                                     labels
	pin                                        *transport.Pin
	way                                        transport.Way
	interval, gpuInterval                      time.Duration
	level                                      slog.Level
}

func (p program) runOptions(args []string) (options, error) {
	f := p.flags("run", "Enrols this machine if needed, then reports to the gateway until it is told to stop.", runExamples)
	return p.parseOptions(f, args)
}

// parseOptions adds the flags of run to those that a command has of its own, and reads them all.
func (p program) parseOptions(f *flags, args []string) (options, error) {
	o := options{labels: labels{}}
	f.StringVar(&o.gateway, "gateway", "", "`URL` of the gateway")
	f.StringVar(&o.state, "state", identity.DefaultPath(p.getenv, p.system.UID), "state `DIR`: identity, status, log")
	f.StringVar(&o.name, "name", "", "`NAME` of the node (default: provider and instance id, else the hostname)")
	f.Var(o.labels, "label", "`KEY=VALUE`, may be repeated")
	f.StringVar(&o.provider, "provider", "", "`PROVIDER` that the machine is rented from (default: found out)")
	f.StringVar(&o.instanceID, "instance-id", "", "`ID` of the machine there (default: found out)")
	f.StringVar(&o.token, "token", "", "enrollment `TOKEN` or bootstrap token; better: MUSTER_TOKEN")
	f.StringVar(&o.tokenFile, "token-file", "", "`FILE` that holds it; - is standard input")
	pin := f.String("root-pin", "", "`PIN` of the gateway's root, for an enrolment: sha256:<hex>")
	way := f.String("transport", string(transport.Auto), "`WAY` to the gateway: direct, curl, or auto, which tries curl where an edge stops the agent")
	f.StringVar(&o.nvidiaSMI, "nvidia-smi", "nvidia-smi", "`PATH` or name of nvidia-smi")
	f.BoolVar(&o.noGPU, "no-gpu", false, "do not look at GPUs")
	f.DurationVar(&o.interval, "interval", 0, "`TIME` between heartbeats, at least 100ms (default: as the gateway wishes, 30s)")
	f.DurationVar(&o.gpuInterval, "gpu-interval", 0, "`TIME` between looks at the GPUs, 1s to 1h (default: as between heartbeats, 30s)")
	f.TextVar(&o.level, "log-level", slog.LevelInfo, "`LEVEL`: debug, info, warn or error")
	if err := f.parse(args); err != nil {
		return o, err
	}
	if err := o.chooseSecret(f); err != nil {
		return o, err
	}
	return o, o.check(*pin, *way)
}

// chooseSecret keeps the source of the credential that wins: a flag over the environment.
func (o *options) chooseSecret(f *flags) error {
	byFlag, byFile := f.given("token"), f.given("token-file")
	switch {
	case byFlag && byFile:
		return usagef("--token and --token-file exclude each other")
	case byFlag:
		o.tokenFile, o.tokenShown = "", o.token != "" && !isToken(o.token)
	case byFile:
		o.token = ""
	case o.token != "":
		o.tokenVariable, o.token, o.tokenFile = o.token, "", ""
	}
	return nil
}

func (o *options) check(pin, way string) error {
	if _, err := transport.New(transport.Config{Gateway: o.gateway}); err != nil {
		return usageError{err.Error()}
	}
	parsed, err := transport.ParseWay(way)
	if err != nil {
		return usagef("--transport: %v", err)
	}
	o.way = parsed
	if pin != "" {
		parsed, err := transport.ParsePin(pin)
		if err != nil {
			return usagef("--root-pin: %v", err)
		}
		o.pin = parsed
	}
	switch {
	case o.interval != 0 && o.interval < leastInterval:
		return usagef("--interval is at least %s", leastInterval)
	case o.gpuInterval != 0 && (o.gpuInterval < leastGPUInterval || o.gpuInterval > mostGPUInterval):
		return usagef("--gpu-interval is between %s and %s", leastGPUInterval, mostGPUInterval)
	case o.state == "":
		return usagef("no place for the state is known here: set HOME to a directory of this user, or give --state DIR")
	case len(o.labels) > wire.MaxLabels:
		return usagef("more than %d labels", wire.MaxLabels)
	case o.name != "" && !printable(o.name):
		return usagef("--name has control characters or more than %d characters", wire.MaxNameLength)
	}
	return nil
}

func printable(name string) bool {
	control := func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }
	return utf8.ValidString(name) && utf8.RuneCountInString(name) <= wire.MaxNameLength && !strings.ContainsFunc(name, control)
}

// defaultName is what a node is called where nobody says: provider and instance id, else the hostname, in the characters
// that every name may have. It is empty where neither is known.
func defaultName(provider, instanceID, hostname string) string {
	base := hostname
	if instanceID != "" {
		base = strings.Trim(provider+"-"+instanceID, "-")
	}
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.':
			return r
		}
		return '-'
	}, base)
	if len(clean) > wire.MaxNameLength {
		clean = clean[:wire.MaxNameLength]
	}
	return strings.Trim(clean, "-.")
}
