package command

import (
	"log/slog"
	"time"

	"muster/agent/flags"
	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

// leastInterval is the fastest pace that --interval takes.
const leastInterval = 100 * time.Millisecond

// The bounds of --gpu-interval.
const (
	LeastGPUInterval = time.Second
	mostGPUInterval  = time.Hour
)

// Options has the values of the flags of run or join.
type Options struct {
	Gateway     string
	State       string
	Name        string
	Provider    string
	InstanceID  string
	NvidiaSMI   string
	NoGPU       bool
	Labels      Labels
	Pin         *transport.Pin `flag:"-"`
	Way         transport.Way  `flag:"transport"`
	Interval    time.Duration
	GPUInterval time.Duration
	Level       slog.Level `flag:"log-level"`

	source source
}

// RunFlags returns the flags of run, which join has too.
func RunFlags() []flags.Flag {
	usual := wire.UsualInterval.String() + ")"
	return []flags.Flag{
		{Name: "gateway", Value: "URL", Usage: "URL of the gateway"},
		{Name: "state", Value: "DIR", Usage: "state DIR: identity, status, log"},
		{Name: "name", Value: "NAME", Usage: "NAME of the node (default: provider and instance id, else the hostname)"},
		{Name: "label", Value: "KEY=VALUE", Usage: "KEY=VALUE, may be repeated"},
		{Name: "provider", Value: "PROVIDER", Usage: "PROVIDER that the machine is rented from (default: found out)"},
		{Name: "instance-id", Value: "ID", Usage: "ID of the machine there (default: found out)"},
		{Name: tokenFlag, Value: "TOKEN", Usage: "enrollment TOKEN or bootstrap token; better: MUSTER_TOKEN"},
		{Name: fileFlag, Value: "FILE", Usage: "FILE that holds it; - is standard input"},
		{Name: "root-pin", Value: "PIN", Usage: "PIN of the gateway's root, for an enrolment: sha256:<hex>"},
		wayFlag(), nvidiaFlag(), noGPUFlag(),
		{Name: "interval", Value: "TIME", Zero: true,
			Usage: "TIME between heartbeats, at least 100ms (default: as the gateway wishes, " + usual},
		{Name: "gpu-interval", Value: "TIME", Zero: true,
			Usage: "TIME between looks at the GPUs, 1s to 1h (default: as between heartbeats, " + usual},
		{Name: "log-level", Value: "LEVEL", Usage: "LEVEL: debug, info, warn or error"},
	}
}

func wayFlag() flags.Flag {
	return flags.Flag{Name: "transport", Value: "WAY",
		Usage: "WAY to the gateway: direct, curl, or auto, which tries curl where an edge stops the agent"}
}

func nvidiaFlag() flags.Flag {
	return flags.Flag{Name: "nvidia-smi", Value: "PATH", Usage: "PATH or name of nvidia-smi"}
}

func noGPUFlag() flags.Flag {
	return flags.Flag{Name: "no-gpu", Off: true, Usage: "do not look at GPUs"}
}

// Parse reads the flags of run, and a command's own into the structs of own.
func Parse(f *Flags, args []string, own ...any) (Options, error) {
	o := Options{State: identity.DefaultPath(f.Program.Getenv, f.System.UID), Labels: Labels{}, Way: transport.Auto, NvidiaSMI: "nvidia-smi"}
	var secret struct{ Token, TokenFile, RootPin string }
	if err := f.Parse(args, append(own, &o, &secret)...); err != nil {
		return o, err
	}
	o.source = source{text: secret.Token, file: secret.TokenFile}
	if err := o.source.choose(f); err != nil {
		return o, err
	}
	return o, o.check(secret.RootPin)
}

// check refuses values that cannot work, before anything is done, and reads those that need more than their form.
func (o *Options) check(pin string) error {
	if _, err := transport.New(transport.Config{Gateway: o.Gateway}); err != nil { // it owns the form of the URL
		return Usagef("%s", err)
	}
	parsed, err := transport.ParseWay(string(o.Way))
	if err != nil {
		return Usagef("--transport: %v", err)
	}
	o.Way = parsed
	if pin != "" {
		parsed, err := transport.ParsePin(pin)
		if err != nil {
			return Usagef("--root-pin: %v", err)
		}
		o.Pin = parsed
	}
	switch {
	case o.Interval != 0 && o.Interval < leastInterval:
		return Usagef("--interval is at least %s", leastInterval)
	case o.GPUInterval != 0 && (o.GPUInterval < LeastGPUInterval || o.GPUInterval > mostGPUInterval):
		return Usagef("--gpu-interval is between %s and %s", LeastGPUInterval, mostGPUInterval)
	case o.State == "":
		return Usagef("no place for the state is known here: set HOME to a directory of this user, or give --state DIR")
	case len(o.Labels) > wire.MaxLabels:
		return Usagef("more than %d labels", wire.MaxLabels)
	case o.Name != "" && !printable(o.Name):
		return Usagef("--name has control characters or more than %d characters", wire.MaxNameLength)
	}
	return nil
}
