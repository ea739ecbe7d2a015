package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"muster/agent/internal/host"
	"muster/agent/wire"
)

const (
	maxError = 300 // bytes of an error that a person reads
	maxLine  = 150 // bytes of nvidia-smi's own words in that error
)

// explain says in one line why a call failed: how it ended, the line that says most, and the next step where one is known.
// notes are the lines of stdout that are no rows.
func explain(out Output, notes []string) string {
	if out.Err != nil {
		return startFailure(out.Err)
	}
	how := "nvidia-smi"
	switch {
	case out.Signal != "":
		how = "nvidia-smi was ended by a signal (" + out.Signal + ")"
	case out.Code != 0:
		how = fmt.Sprintf("nvidia-smi ended with %d", out.Code)
	}
	line, step := meaningful(append(lines(out.Stderr), notes...))
	if step == "" {
		step = codeStep(out.Code)
	}
	switch {
	case line == "" && how == "nvidia-smi":
		line = "it printed no GPU"
	case line == "":
		line = "it did not say why"
	}
	text := how + ": " + wire.Plain(strings.TrimRight(line, ". "), maxLine)
	if step != "" {
		text += "; " + step
	}
	return text
}

// startFailure says why the program did not run at all.
func startFailure(err error) string {
	text := "nvidia-smi cannot be started: " + wire.Plain(err.Error(), maxLine)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return text + "; let the agent's user execute it, or name another with --nvidia-smi"
	case errors.Is(err, fs.ErrNotExist):
		return text + "; its loader may be missing, as in an image without glibc"
	default:
		return text
	}
}

// meaningful picks the line that says most: the first one that nextStep knows, else the last one. The version of a library is not
// worth showing.
func meaningful(all []string) (line, step string) {
	for _, l := range all {
		if step := nextStep(l); step != "" {
			return l, step
		}
	}
	for i := len(all) - 1; i >= 0; i-- {
		if !strings.HasPrefix(all[i], "NVML library version") {
			return all[i], ""
		}
	}
	return "", ""
}

// advice is a next step for a failure: by what nvidia-smi says, in small letters, and by its exit code where it does not say that. The
// codes stand in its manual page; 0: none says it.
type advice struct {
	words []string
	code  int
	step  string
}

func advices() []advice {
	says := func(words ...string) []string { return words }
	return []advice{
		{powerWords(), noPower, "attach the external power cables of that GPU, with the machine switched off"},
		{says("version mismatch"), 0, "the driver was updated while in use: restart the machine, or unload and load the nvidia modules"},
		{says("communicate with the nvidia driver", "driver not loaded"), 9,
			"load the driver (modprobe nvidia) or install it for this kernel; a container needs it on its host"},
		{says("failed to initialize nvml: unknown error"), 0,
			"a container that lost its devices must be restarted; elsewhere look for NVRM in dmesg"},
		{says("insufficient permissions", "failed to initialize nvml: permission"), 4,
			"let the agent's user open /dev/nvidia*, or run it as root"},
		{says("libnvidia-ml", "library not found"), 12,
			"install the driver's libraries, or start the container with the NVIDIA runtime"},
		{says("no devices were found"), 0, "look for the device in lspci and for NVRM in dmesg; a container must be given its GPUs"},
		{says("unable to determine the device handle for", "gpu is lost"), lostGPU,
			"look for Xid in dmesg; restart the machine to get the GPU back"},
		{says("requires reset"), 0, "reset it (nvidia-smi --gpu-reset) when nothing uses it, or restart the machine"},
		{nil, infoROM, "a GPU's infoROM is damaged: it works on, and its board may have to be replaced"},
	}
}

// nextStep is what to do about a line of nvidia-smi; empty: that is not known.
func nextStep(line string) string {
	return stepWhere(func(a advice) bool { return says(line, a.words) })
}

// codeStep is what to do about an exit code.
func codeStep(code int) string {
	return stepWhere(func(a advice) bool { return code != 0 && a.code == code })
}

func stepWhere(fits func(advice) bool) string {
	all := advices()
	if i := slices.IndexFunc(all, fits); i >= 0 {
		return all[i].step
	}
	return ""
}

// says reports whether a line has one of these words.
func says(line string, words []string) bool {
	line = strings.ToLower(line)
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, word) })
}

// causeOf names the cause of a failure, where a rule of the gateway goes by it.
func causeOf(out Output) string {
	if out.Err == nil && out.Code == noPower || slices.ContainsFunc(append(lines(out.Stderr), lines(out.Stdout)...), powerCable) {
		return wire.CausePowerCable
	}
	return ""
}

// powerCable reports whether nvidia-smi says in this line that a GPU has no external power.
func powerCable(line string) bool { return says(line, powerWords()) }

// powerWords are those of NVML and of nvidia-smi's manual page.
func powerWords() []string {
	return []string{"insufficient external power", "power cables are not properly attached"}
}

// lostDevices lists the GPUs that do not answer, as nvidia-smi says on either stream. Each is named by its slot, or is "" where
// the line names no slot.
func lostDevices(out Output) (buses []string) {
	seen := map[string]bool{}
	for _, line := range append(lines(out.Stderr), lines(out.Stdout)...) {
		if !lostDevice(line) || len(seen) >= maxRows {
			continue
		}
		bus := host.BusIn(line)
		key := cmp.Or(bus, line)
		if !seen[key] {
			seen[key] = true
			buses = append(buses, bus)
		}
	}
	return buses
}

// lostDevice reports whether nvidia-smi says in this line that it cannot reach a device.
func lostDevice(line string) bool {
	return strings.HasPrefix(line, "Unable to determine the device handle for")
}

// noDevices reports whether the driver says that it has no GPU.
func noDevices(out Output) bool {
	return slices.ContainsFunc(append(lines(out.Stdout), lines(out.Stderr)...), func(line string) bool {
		return strings.HasPrefix(line, "No devices were found")
	})
}

// invalidField returns the field because of which nvidia-smi refused the whole query, or "".
func invalidField(out Output) string {
	for _, line := range append(lines(out.Stdout), lines(out.Stderr)...) {
		rest, ok := strings.CutPrefix(line, `Field "`)
		if !ok {
			continue
		}
		if field, end, ok := strings.Cut(rest, `"`); ok && strings.Contains(end, "not a valid field") {
			return strings.TrimSpace(field)
		}
	}
	return ""
}

// lines returns the lines that are not empty, without white space around them.
func lines(text []byte) (all []string) {
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}
