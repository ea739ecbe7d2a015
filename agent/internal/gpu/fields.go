package gpu

import (
	"slices"
	"strings"
	"time"
)

// The fields that are asked for, by the names that drivers 590 to 610 use. A slow driver is asked for the first block alone.
const (
	fieldIndex       = "index"
	fieldUUID        = "uuid"
	fieldName        = "name"
	fieldBus         = "pci.bus_id"
	fieldDriver      = "driver_version"
	fieldMIG         = "mig.mode.current"
	fieldMemoryTotal = "memory.total"
	fieldMemoryUsed  = "memory.used"
	fieldUtilization = "utilization.gpu"
	fieldTemperature = "temperature.gpu"
	fieldPower       = "power.draw"
	fieldPowerLimit  = "enforced.power.limit"
	fieldECC         = "ecc.errors.uncorrected.volatile.total"
	fieldRemapWaits  = "remapped_rows.pending"
	fieldRemapFailed = "remapped_rows.failure"
	fieldRecovery    = "gpu_recovery_action"

	fieldResetNeeded    = "reset_status.reset_required" // for drivers that do not know gpu_recovery_action
	fieldDrainAndReset  = "reset_status.drain_and_reset_recommended"
	fieldPagesPending   = "retired_pages.pending"
	fieldCapability     = "compute_cap"
	fieldPersistence    = "persistence_mode"
	fieldState          = "pstate"
	fieldMemoryFree     = "memory.free"
	fieldMemoryReserved = "memory.reserved"
	fieldMemoryBusy     = "utilization.memory"
	fieldEncoder        = "utilization.encoder"
	fieldDecoder        = "utilization.decoder"
	fieldMemoryHeat     = "temperature.memory"
	fieldFan            = "fan.speed" // holds the driver's lock for 137 us a call, which is little beside the start of nvidia-smi
	fieldPowerMax       = "power.max_limit"
	fieldClockSM        = "clocks.current.sm"
	fieldClockMemory    = "clocks.current.memory"
	fieldClockReasons   = "clocks_event_reasons.active"
	fieldLinkGen        = "pcie.link.gen.current"
	fieldLinkGenMax     = "pcie.link.gen.max"
	fieldLinkWidth      = "pcie.link.width.current"
	fieldLinkWidthMax   = "pcie.link.width.max"
	fieldECCMode        = "ecc.mode.current"
	fieldECCFixed       = "ecc.errors.corrected.volatile.total"
	fieldECCFixedEver   = "ecc.errors.corrected.aggregate.total"
	fieldECCEver        = "ecc.errors.uncorrected.aggregate.total"
	fieldRemapFixed     = "remapped_rows.correctable"
	fieldRemapBroken    = "remapped_rows.uncorrectable"
	fieldFabricState    = "fabric.state"
	fieldFabricStatus   = "fabric.status"
)

const (
	maxRefused  = 4                // refused fields that are left out one by one; after more only the core is asked for
	helpSoon    = 2 * time.Second  // wait before the help is read again after a failure; doubled with each failure
	helpLatest  = 10 * time.Minute // the longest such wait
	wideSoon    = 5 * time.Minute  // how long a driver that was slow is asked for less; doubled each time that it is slow again
	wideLatest  = time.Hour        // the longest such time, and that after a call that is not needed to know the GPUs
	maxFields   = 4096             // of a help text
	fieldLetter = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)

// column is one field of a query, with the name by which this nvidia-smi knows it.
type column struct{ field, name string }

// narrow lists the columns of every query, each with its other and older names.
func narrow() [][]string {
	return [][]string{
		{fieldIndex}, {fieldUUID, "gpu_uuid"}, {fieldName, "gpu_name"}, {fieldBus, "gpu_bus_id"}, {fieldDriver}, {fieldMIG},
		{fieldMemoryTotal}, {fieldMemoryUsed}, {fieldUtilization}, {fieldTemperature}, {fieldPower},
		{fieldPowerLimit, "power.limit"}, {fieldECC}, {fieldRemapWaits}, {fieldRemapFailed}, {fieldRecovery},
	}
}

// wanted lists the columns of a query to a quick driver.
func wanted() [][]string {
	return append(narrow(), [][]string{
		{fieldResetNeeded}, {fieldDrainAndReset}, {fieldPagesPending}, {fieldCapability}, {fieldPersistence}, {fieldState},
		{fieldMemoryFree}, {fieldMemoryReserved}, {fieldMemoryBusy}, {fieldEncoder}, {fieldDecoder}, {fieldMemoryHeat}, {fieldFan},
		{fieldPowerMax}, {fieldClockSM, "clocks.sm"}, {fieldClockMemory, "clocks.memory", "clocks.mem"},
		{fieldClockReasons, "clocks_throttle_reasons.active"},
		{fieldLinkGen, "pcie.link.gen.gpucurrent"}, {fieldLinkGenMax}, {fieldLinkWidth}, {fieldLinkWidthMax},
		{fieldECCMode}, {fieldECCFixed}, {fieldECCFixedEver}, {fieldECCEver}, {fieldRemapFixed}, {fieldRemapBroken},
		{fieldFabricState}, {fieldFabricStatus},
	}...)
}

// core lists the columns that every nvidia-smi of the last ten years knows. They are asked for where the help cannot be read.
func core() []column {
	var columns []column
	for _, field := range []string{fieldIndex, fieldUUID, fieldName, fieldBus, fieldDriver, fieldMemoryTotal, fieldMemoryUsed,
		fieldUtilization, fieldTemperature, fieldPower} {
		columns = append(columns, column{field, field})
	}
	return append(columns, column{fieldPowerLimit, "power.limit"})
}

// plan is what is asked for, and how it was chosen.
type plan struct {
	known   []Field // what the help lists; nil: not read
	columns []column
	refused []string      // fields that the help lists and a query was refused for
	again   time.Time     // when to try the help again; zero: it was read
	failed  int           // how many times in a row the help could not be read
	driver  string        // the version of the driver when the help was read
	slow    time.Time     // until then only the narrow columns are asked for; zero: the driver is quick
	lasted  time.Duration // how long it was the last time
	quick   time.Time     // since when all columns are asked for again
}

// ready reports whether the plan can be used. If not, the help must be read first.
func (p *plan) ready(now time.Time) bool {
	return len(p.columns) > 0 && (p.again.IsZero() || now.Before(p.again))
}

// args is the query's command line.
func (p *plan) args() []string {
	names := make([]string, len(p.columns))
	for i, c := range p.columns {
		names[i] = c.name
	}
	return []string{"--query-gpu=" + strings.Join(names, ","), "--format=csv,noheader,nounits"}
}

// resolve makes the plan from an answer to --help-query-gpu. A help without an index or a UUID is not believed.
func (p *plan) resolve(help Output, now time.Time) {
	p.known = ParseHelp(help.Stdout)
	p.again = time.Time{}
	p.driver = ""
	if help.Err == nil && help.Code == 0 && p.choose() {
		p.failed = 0
		return
	}
	p.known = nil
	p.again = now.Add(min(helpSoon<<min(p.failed, 20), helpLatest))
	p.failed++
	p.choose()
}

// askLess makes the plan narrow for this long at least, because the driver was slow. One that is slow again is left alone for twice as
// long. After an hour without trouble the times are short again.
func (p *plan) askLess(now time.Time, least time.Duration) {
	if p.slow.IsZero() && now.Sub(p.quick) > wideLatest {
		p.lasted = 0
	}
	p.lasted = min(max(2*p.lasted, least), wideLatest)
	p.slow = now.Add(p.lasted)
	p.choose()
}

// askAllAgain makes the plan wide again when that time is over.
func (p *plan) askAllAgain(now time.Time) {
	if !p.slow.IsZero() && !now.Before(p.slow) {
		p.slow = time.Time{}
		p.quick = now
		p.choose()
	}
}

// choose picks the columns out of the known fields, without the refused ones. It reports false if the help is not known, or
// too little of it is left.
func (p *plan) choose() bool {
	p.columns = nil
	if p.known == nil || len(p.refused) > maxRefused {
		for _, c := range core() {
			if !slices.Contains(p.refused, c.name) {
				p.columns = append(p.columns, c)
			}
		}
		return p.known != nil
	}
	all := wanted()
	if !p.slow.IsZero() {
		all = narrow()
	}
	for _, names := range all {
		older := names[0] == fieldResetNeeded || names[0] == fieldDrainAndReset
		if i := slices.IndexFunc(names, p.usable); i >= 0 && !(older && p.has(fieldRecovery)) {
			p.columns = append(p.columns, column{names[0], names[i]})
		}
	}
	return p.has(fieldIndex) && p.has(fieldUUID)
}

// usable reports whether this nvidia-smi knows a field by this name, and no query was refused for it.
func (p *plan) usable(name string) bool {
	return !slices.Contains(p.refused, name) && slices.ContainsFunc(p.known, func(f Field) bool {
		return f.Name == name || slices.Contains(f.Aliases, name)
	})
}

func (p *plan) has(field string) bool {
	return slices.ContainsFunc(p.columns, func(c column) bool { return c.field == field })
}

// refuse drops a field that nvidia-smi does not take. It reports false if nothing is left to try.
func (p *plan) refuse(name string) bool {
	if !slices.ContainsFunc(p.columns, func(c column) bool { return c.name == name }) {
		return false
	}
	p.refused = append(p.refused, name)
	if !p.choose() && p.known != nil { // without index or UUID the help is wrong: go on with the core
		p.known = nil
		p.choose()
	}
	return p.has(fieldIndex) && p.has(fieldUUID)
}

// note remembers the version of the driver that answered. Another version may know other fields, so the help is read again.
func (p *plan) note(driver string) {
	if p.driver != "" && p.driver != driver {
		*p = plan{}
	}
	p.driver = driver
}

// Field is one property that nvidia-smi can be asked for.
type Field struct {
	Name    string
	Aliases []string // other names of the same
}

// ParseHelp reads the answer to --help-query-gpu. A property stands at the start of a line in quotes, followed by its other names
// ("a" or "b"). All other lines describe it. Other text gives no fields.
func ParseHelp(text []byte) (fields []Field) {
	for line := range strings.Lines(string(text)) {
		names := quoted(strings.TrimSpace(line))
		if len(names) > 0 && len(fields) < maxFields {
			fields = append(fields, Field{Name: names[0], Aliases: names[1:]})
		}
	}
	return fields
}

// quoted reads `"a" or "b"` from the start of a line.
func quoted(line string) (names []string) {
	for strings.HasPrefix(line, `"`) {
		name, rest, ok := strings.Cut(line[1:], `"`)
		if !ok || name == "" || strings.Trim(name, fieldLetter) != "" {
			return names
		}
		names = append(names, name)
		if line, ok = strings.CutPrefix(strings.TrimSpace(rest), "or "); !ok {
			return names
		}
		line = strings.TrimSpace(line)
	}
	return names
}
