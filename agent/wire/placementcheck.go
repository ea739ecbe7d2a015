package wire

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// agentChecks are what an agent can look at.
func agentChecks() []string {
	all := slices.Concat(HostChecks(), AcceptChecks())
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(name string) bool { return name == CheckAsPaid })
}

// Check refuses checks that no agent knows, and a container that is not named by its digest.
func (p *NodeCheck) Check() error {
	known := agentChecks()
	for i, name := range p.Checks {
		if !slices.Contains(known, name) || slices.Contains(p.Checks[:i], name) {
			return badParam("checks", name, "each once, of "+strings.Join(known, ", "))
		}
	}
	switch {
	case len(p.Checks) == 0:
		return badParam("checks", "", "some of "+strings.Join(known, ", "))
	case p.Profile != "" && !wordForm(p.Profile, MaxNameLength):
		return badParam("profile", p.Profile, "the name of a profile")
	case p.Image != "" && !imageByDigest(p.Image):
		return badParam("image", p.Image, "HOST/PATH[:TAG]@sha256:DIGEST: a tag alone can change, a digest cannot")
	case p.Image == "" && len(p.Command) > 0:
		return badParam("command", p.Command[0], "what to run in the container, so name its image too")
	case !wordsFit(p.Command):
		return badParam("command", strings.Join(p.Command, " "), wordsForm)
	case p.Login != "" && (p.Image == "" || !wordForm(p.Login, MaxNameLength)):
		return badParam("login", p.Login, "the name of a secret for the registry of the image")
	}
	return p.TaskTime.Check()
}

// Check refuses GPUs that are not named by their UUIDs, and accounts that muster cannot have made.
func (p *GPUClean) Check() error {
	switch {
	case p.Allocation == "":
		return badParam("allocation", "", "the id of an allocation")
	case len(p.GPUs) == 0 || slices.Contains(p.GPUs, AllGPUs):
		return badParam("gpus", strings.Join(p.GPUs, " "), "the UUID of each GPU that must be clean")
	case len(p.Users) > MaxList:
		return badParam("users", strconv.Itoa(len(p.Users)), fmt.Sprintf("at most %d accounts", MaxList))
	}
	for _, name := range p.Users {
		if !UserName(name) {
			return badParam("users", name, "names of accounts")
		}
	}
	return cmp.Or(checkAllocation(p.Allocation), checkGPUs(p.GPUs), p.TaskTime.Check())
}

// ReadEvidence reads the evidence of a finished TaskNodeCheck. A node has written it, so it is refused if it is too long, if a screen could
// not show it, or if it names a thing twice. Fields of later versions are left out.
func ReadEvidence(values TaskValues) (Evidence, error) {
	var e Evidence
	if err := readValue(values, ValueEvidence, &e); err != nil {
		return e, err
	}
	f := e.Facts
	if len(e.Checks) > MaxChecks || len(e.Figures) > MaxChecks || len(f.PCI) > MaxPCI || len(f.Accelerators) > MaxGPUs {
		return Evidence{}, errors.New("the evidence has more checks, figures or devices than a node can have")
	}
	err := cmp.Or(
		findBad("boot, profile or took_ms", []Evidence{e}, Evidence.valid),
		findBad("check", e.Checks, Check.valid),
		findBad("figure", e.Figures, Figure.valid),
		findBad("device", f.PCI, PCIDevice.Valid),
		findBad("accelerator", f.Accelerators, AcceleratorID.Valid),
		findTwice("check", e.Checks, func(c Check) string { return c.Name }),
		findTwice("device", f.PCI, func(d PCIDevice) string { return d.Address }),
		findTwice("UUID", f.Accelerators, func(a AcceleratorID) string { return a.UUID }),
		findTwice("address", f.Accelerators, func(a AcceleratorID) string { return a.Address }),
	)
	if err != nil {
		return Evidence{}, fmt.Errorf("the evidence cannot be: %w", err)
	}
	return e, nil
}

// ReadCleaning reads what a finished TaskGPUClean has found, with the rules of ReadEvidence.
func ReadCleaning(values TaskValues) (Cleaning, error) {
	var c Cleaning
	if err := readValue(values, ValueCleaning, &c); err != nil {
		return c, err
	}
	if len(c.Removed) > MaxLeft || len(c.Left) > MaxLeft {
		return Cleaning{}, errors.New("the cleaning has more lines than one may have")
	}
	err := cmp.Or(findBad("removed", c.Removed, func(line string) bool { return plainText(line, MaxSaw) }),
		findBad("left", c.Left, Left.valid))
	switch {
	case err != nil:
		return Cleaning{}, fmt.Errorf("the cleaning cannot be: %w", err)
	case c.Clean != (len(c.Left) == 0):
		return Cleaning{}, errors.New("the cleaning says of itself that it is clean, and that something is left, or neither")
	}
	return c, nil
}

func readValue(values TaskValues, name string, into any) error {
	raw := values[name]
	if len(raw) == 0 || len(raw) > MaxTaskValues {
		return fmt.Errorf("the task has no value %s, or one of more than %d bytes", name, MaxTaskValues)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the value %s: %w", name, err)
	}
	return nil
}

func findBad[T any](what string, all []T, valid func(T) bool) error {
	if i := slices.IndexFunc(all, func(one T) bool { return !valid(one) }); i >= 0 {
		return fmt.Errorf("%s %d has a value that is too long, or none of its kind", what, i)
	}
	return nil
}

// findTwice finds a name that stands twice. No name is none.
func findTwice[T any](what string, all []T, name func(T) string) error {
	seen := map[string]bool{}
	for _, one := range all {
		n := name(one)
		if n != "" && seen[n] {
			return fmt.Errorf("two have the %s %.60q", what, n)
		}
		seen[n] = true
	}
	return nil
}

// plainText accepts one line that a screen can show.
func plainText(s string, most int) bool { return len(s) <= most && Plain(s, most) == s }

func plainTexts(most int, all ...string) bool {
	return !slices.ContainsFunc(all, func(s string) bool { return !plainText(s, most) })
}

func (e Evidence) valid() bool {
	f := e.Facts
	return (e.Profile == "" || wordForm(e.Profile, MaxNameLength)) && plainText(e.BootID, MaxRunID) && e.TookMS >= 0 &&
		e.At.Year() > 0 && e.At.Year() < 10_000 && plainTexts(MaxText, f.Vendor, f.Product, f.BIOSVersion, f.DriverVersion)
}

func (c Check) valid() bool {
	return slices.Contains(agentChecks(), c.Name) && slices.Contains([]string{CheckOK, CheckFailed, CheckUnknown}, c.State) &&
		plainText(c.Saw, MaxSaw)
}

func (f Figure) valid() bool {
	return wordForm(f.Name, MaxNameLength) && f.Unit != "" && plainText(f.Unit, MaxTerm) && f.Value >= 0 && f.Value <= MaxNumber
}

// Valid reports whether the device can be part of evidence.
func (d PCIDevice) Valid() bool {
	return PCIAddress(d.Address) && (d.Switch == "" || PCIAddress(d.Switch)) && hexDigits(d.Vendor, 4) && hexDigits(d.Device, 4) &&
		hexDigits(d.Class, 6) && plainTexts(MaxLabelValue, d.Driver, d.SpeedMax, d.Board, d.Firmware) &&
		within(d.NUMA, 0, 1<<16) && within(d.IOMMUGroup, 0, 1<<24) && within(d.WidthMax, 1, 64)
}

// Valid reports whether the GPU can be part of evidence.
func (a AcceleratorID) Valid() bool {
	memory := a.MemoryMiB == nil || *a.MemoryMiB > 0 && *a.MemoryMiB <= 16<<20 // 16 TiB
	parts := len(a.MIG) <= MaxList && !slices.ContainsFunc(a.MIG, func(m MIGInstance) bool {
		return !gpuUUID(m.UUID) || !plainText(m.Profile, MaxLabelValue)
	})
	address, isPCI := strings.CutPrefix(a.UUID, "PCI-") // of AMD, where the board has no other
	return (gpuUUID(a.UUID) || isPCI && PCIAddress(address)) && (a.Address == "" || PCIAddress(a.Address)) &&
		plainTexts(MaxText, a.Name, a.Serial) && within(a.Module, 0, MaxGPUs) && within(a.Links, 0, MaxGPUs) && memory && parts
}

func (l Left) valid() bool {
	return (l.GPU == "" || gpuUUID(l.GPU)) && l.What != "" && plainTexts(MaxSaw, l.What, l.Next)
}

func within(n *int, least, most int) bool { return n == nil || *n >= least && *n <= most }

// PCIAddress reports whether s is an address of the PCI bus as Linux writes it: dddd:bb:dd.f, lower case.
func PCIAddress(s string) bool {
	domain, rest, _ := strings.Cut(s, ":")
	return len(domain) >= 4 && len(domain) <= 8 && hexDigits(domain, len(domain)) && len(rest) == 7 && rest[2] == ':' && rest[5] == '.' &&
		hexDigits(rest[:2]+rest[3:5], 4) && rest[6] >= '0' && rest[6] <= '7'
}

func hexDigits(s string, n int) bool { return len(s) == n && strings.Trim(s, "0123456789abcdef") == "" }
