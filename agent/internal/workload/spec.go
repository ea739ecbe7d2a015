package workload

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"muster/agent/internal/task"
	"muster/agent/wire"
)

// spec is a digest of what a container is made from. Two launches with the same one want the same container. How the image gets to the
// node, with which engine, how long that may take, and by which tag it was asked for, does not change the container.
func spec(params *wire.WorkloadLaunch) string {
	p := *params
	p.Image = pinned(p.Image)
	p.Login = ""
	p.Runtime = ""
	p.TaskTime = wire.TaskTime{}
	return task.Digest(&p)
}

func labelFilter(name, value string) string { return "label=" + name + "=" + value }

// arguments are those of the engine's run. Each option is one word with its value in it, and all stand before the image, so that no
// param can be read as an option: what follows the image is the container's command.
func (l *launch) arguments(env environment) []string {
	p := l.params
	args := []string{"run", "--detach", "--pull=never", "--restart=no", "--name=" + containerName(p.Name)}
	for _, label := range l.labels() {
		args = append(args, "--label="+label)
	}
	args = append(args, env.options()...)
	args = append(args, gpuOptions(l.engine.name, p.GPUs)...)
	for _, port := range p.Ports {
		args = append(args, "--publish="+port)
	}
	for _, m := range l.mounts {
		args = append(args, "--mount="+mountOption(m))
	}
	options := []struct{ name, value string }{
		{"user", p.User}, {"workdir", p.Workdir}, {"shm-size", mebibytes(p.ShmMiB)}, {"memory", mebibytes(p.MemoryMiB)},
	}
	for _, o := range options {
		if o.value != "" {
			args = append(args, "--"+o.name+"="+o.value)
		}
	}
	args = append(args, pinned(p.Image))
	return append(args, p.Command...)
}

func (l *launch) labels() []string {
	p := l.params
	secrets := slices.Sorted(maps.Keys(p.SecretEnv))
	return []string{
		labelTask + "=" + l.job.ID,
		Label + "=" + p.Name,
		labelNode + "=" + l.host.Node,
		labelSpec + "=" + spec(p),
		labelImage + "=" + p.Image,
		labelGPUs + "=" + strings.Join(p.GPUs, ","),
		labelSecrets + "=" + strings.Join(secrets, ","),
		labelAllocation + "=" + p.Allocation,
	}
}

// gpuOptions name GPUs as the engine wants it. Docker reads its value as CSV, so that a list needs quotes inside of it. The others find
// devices by CDI.
func gpuOptions(engine string, gpus []string) []string {
	if len(gpus) == 0 {
		return nil
	}
	if engine == docker {
		if gpus[0] == "all" {
			return []string{"--gpus=all"}
		}
		return []string{`--gpus="device=` + strings.Join(gpus, ",") + `"`}
	}
	var all []string
	for _, gpu := range gpus {
		all = append(all, "--device=nvidia.com/gpu="+gpu)
	}
	return all
}

func mountOption(m wire.Mount) string {
	option := "type=bind,source=" + m.Host + ",target=" + m.Container
	if m.ReadOnly {
		option += ",readonly"
	}
	return option
}

func mebibytes(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n) + "m"
}
