package command

import (
	"log/slog"
	"time"

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

// Options is what run or join was called with.
type Options struct {
	Gateway     string
	State       string
	Name        string
	Provider    string
	InstanceID  string
	NvidiaSMI   string
	NoGPU       bool
	Labels      Labels
	Pin         *transport.Pin
	Way         transport.Way
	Interval    time.Duration
	GPUInterval time.Duration
	Level       slog.Level

	source source
}

// Parse adds the flags of run to the command's own flags, and reads them all.
func Parse(f *Flags, args []string) (Options, error) {
	o := Options{Labels: Labels{}}
	f.StringVar(&o.Gateway, "gateway", "", "`URL` of the gateway")
	f.StringVar(&o.State, "state", identity.DefaultPath(f.Getenv, f.System.UID), "state `DIR`: identity, status, log")
	f.StringVar(&o.Name, "name", "", "`NAME` of the node (default: provider and instance id, else the hostname)")
	f.Var(o.Labels, "label", "`KEY=VALUE`, may be repeated")
	f.StringVar(&o.Provider, "provider", "", "`PROVIDER` that the machine is rented from (default: found out)")
	f.StringVar(&o.InstanceID, "instance-id", "", "`ID` of the machine there (default: found out)")
	f.StringVar(&o.source.text, tokenFlag, "", "enrollment `TOKEN` or bootstrap token; better: MUSTER_TOKEN")
	f.StringVar(&o.source.file, fileFlag, "", "`FILE` that holds it; - is standard input")
	pin := f.String("root-pin", "", "`PIN` of the gateway's root, for an enrolment: sha256:<hex>")
	way := WayFlag(f)
	f.StringVar(&o.NvidiaSMI, "nvidia-smi", "nvidia-smi", "`PATH` or name of nvidia-smi")
	f.BoolVar(&o.NoGPU, "no-gpu", false, "do not look at GPUs")
	f.DurationVar(&o.Interval, "interval", 0,
		"`TIME` between heartbeats, at least 100ms (default: as the gateway wishes, "+wire.UsualInterval.String()+")")
	f.DurationVar(&o.GPUInterval, "gpu-interval", 0,
		"`TIME` between looks at the GPUs, 1s to 1h (default: as between heartbeats, "+wire.UsualInterval.String()+")")
	f.TextVar(&o.Level, "log-level", slog.LevelInfo, "`LEVEL`: debug, info, warn or error")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if err := o.source.choose(f); err != nil {
		return o, err
	}
	return o, o.check(*pin, *way)
}

// WayFlag adds the flag --transport.
func WayFlag(f *Flags) *string {
	return f.String("transport", string(transport.Auto),
		"`WAY` to the gateway: direct, curl, or auto, which tries curl where an edge stops the agent")
}

// check refuses values that cannot work, before anything is done, and reads those that package flag cannot read.
func (o *Options) check(pin, way string) error {
	if _, err := transport.New(transport.Config{Gateway: o.Gateway}); err != nil { // it owns the form of the URL
		return Usagef("%s", err)
	}
	parsed, err := transport.ParseWay(way)
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
