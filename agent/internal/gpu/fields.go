package gpu

import (
	"slices"
	"strings"
	"time"
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

// block says when a field is asked for.
type block int

const (
	core   block = iota // always: every nvidia-smi of the last ten years knows it, so it needs no help text
	narrow              // also of a slow driver, where the help has it
	wide                // of a quick driver alone
)

// field is what nvidia-smi is asked for: by the names that drivers 590 to 610 use and older ones, and how its cell is read.
type field struct {
	names []string
	block block
	read  func(r *row)
}

// name is the one by which people know a field.
func (f field) name() string { return f.names[0] }

// Names of fields that are looked at in a special way.
const (
	fieldIndex    = "index"
	fieldUUID     = "uuid"
	fieldRecovery = "gpu_recovery_action"
	olderRecovery = "reset_status." // begins the fields of drivers that do not know fieldRecovery
)

// fields is the table of all of them, in the order in which they are asked for.
var fields = [...]field{
	{[]string{fieldIndex}, core, (*row).readIndex},
	{[]string{fieldUUID, "gpu_uuid"}, core, func(r *row) { r.UUID = r.identifier(); r.nameless = r.kind == failed }},
	{[]string{"name", "gpu_name"}, core, func(r *row) { r.Name = r.identifier() }},
	{[]string{"pci.bus_id", "gpu_bus_id"}, core, func(r *row) { r.BusID = r.identifier() }},
	{[]string{"driver_version"}, core, func(r *row) { r.driver = r.word(maxLine) }},
	{[]string{"mig.mode.current"}, narrow, func(r *row) { r.MIG = r.fault() }},
	{[]string{"memory.total"}, core, func(r *row) { r.MemoryTotalMiB = whole(r.sensor(mebibytes)) }},
	{[]string{"memory.used"}, core, func(r *row) { r.MemoryUsedMiB = whole(r.sensor(mebibytes)) }},
	{[]string{"utilization.gpu"}, core, func(r *row) { r.UtilizationPercent = r.sensor(percent) }},
	{[]string{"temperature.gpu"}, core, func(r *row) { r.TemperatureCelsius = r.sensor(celsius) }},
	{[]string{"power.draw"}, core, func(r *row) { r.PowerWatts = r.sensor(watts) }},
	{[]string{"enforced.power.limit", "power.limit"}, core, func(r *row) { r.PowerLimitWatts = r.number(watts) }},
	{[]string{"ecc.errors.uncorrected.volatile.total"}, narrow, func(r *row) { r.ECC.UncorrectedVolatile = whole(r.number(count)) }},
	{[]string{"remapped_rows.pending"}, narrow, func(r *row) { r.RemappedRows.Pending = r.fault() }},
	{[]string{"remapped_rows.failure"}, narrow, func(r *row) { r.RemappedRows.Failure = r.fault() }},
	{[]string{fieldRecovery}, narrow, func(r *row) { r.failure(); r.RecoveryAction = r.slug() }},

	{[]string{olderRecovery + "reset_required"}, wide, func(r *row) { r.reset = r.fault() }},
	{[]string{olderRecovery + "drain_and_reset_recommended"}, wide, func(r *row) { r.drain = r.fault() }},
	{[]string{"retired_pages.pending"}, wide, func(r *row) { r.RetiredPagesPending = r.flag() }},
	{[]string{"compute_cap"}, wide, func(r *row) { r.ComputeCapability = r.word(maxWord) }},
	{[]string{"persistence_mode"}, wide, func(r *row) { r.PersistenceMode = r.flag() }},
	{[]string{"pstate"}, wide, func(r *row) { r.PerformanceState = r.state() }},
	{[]string{"memory.free"}, wide, func(r *row) { r.MemoryFreeMiB = whole(r.figure(mebibytes)) }},
	{[]string{"memory.reserved"}, wide, func(r *row) { r.MemoryReservedMiB = whole(r.figure(mebibytes)) }},
	{[]string{"utilization.memory"}, wide, func(r *row) { r.MemoryUtilizationPercent = r.figure(percent) }},
	{[]string{"utilization.encoder"}, wide, func(r *row) { r.EncoderUtilizationPercent = r.figure(percent) }},
	{[]string{"utilization.decoder"}, wide, func(r *row) { r.DecoderUtilizationPercent = r.figure(percent) }},
	{[]string{"temperature.memory"}, wide, func(r *row) { r.MemoryTemperatureCelsius = r.figure(celsius) }},
	// It holds the driver's lock for 137 us a call, which is little beside the start of nvidia-smi.
	{[]string{"fan.speed"}, wide, func(r *row) { r.FanPercent = r.figure(fanPercent) }},
	{[]string{"power.max_limit"}, wide, func(r *row) { r.PowerMaxLimitWatts = r.figure(watts) }},
	{[]string{"clocks.current.sm", "clocks.sm"}, wide, func(r *row) { r.Clocks.SMMHz = whole(r.figure(megahertz)) }},
	{[]string{"clocks.current.memory", "clocks.memory", "clocks.mem"}, wide, func(r *row) { r.Clocks.MemoryMHz = whole(r.figure(megahertz)) }},
	{[]string{"clocks_event_reasons.active", "clocks_throttle_reasons.active"}, wide, func(r *row) { r.Clocks.Reasons = r.reasons() }},
	{[]string{"pcie.link.gen.current", "pcie.link.gen.gpucurrent"}, wide, func(r *row) { r.PCIe.Generation = r.small() }},
	{[]string{"pcie.link.gen.max"}, wide, func(r *row) { r.PCIe.GenerationMax = r.small() }},
	{[]string{"pcie.link.width.current"}, wide, func(r *row) { r.PCIe.Width = r.small() }},
	{[]string{"pcie.link.width.max"}, wide, func(r *row) { r.PCIe.WidthMax = r.small() }},
	{[]string{"ecc.mode.current"}, wide, func(r *row) { r.ECC.Enabled = r.flag() }},
	{[]string{"ecc.errors.corrected.volatile.total"}, wide, func(r *row) { r.ECC.CorrectedVolatile = whole(r.figure(count)) }},
	{[]string{"ecc.errors.corrected.aggregate.total"}, wide, func(r *row) { r.ECC.CorrectedAggregate = whole(r.figure(count)) }},
	{[]string{"ecc.errors.uncorrected.aggregate.total"}, wide, func(r *row) { r.ECC.UncorrectedAggregate = whole(r.figure(count)) }},
	{[]string{"remapped_rows.correctable"}, wide, func(r *row) { r.RemappedRows.Correctable = whole(r.figure(count)) }},
	{[]string{"remapped_rows.uncorrectable"}, wide, func(r *row) { r.RemappedRows.Uncorrectable = whole(r.figure(count)) }},
	{[]string{"fabric.state"}, wide, func(r *row) { r.Fabric.State = r.slug() }},
	{[]string{"fabric.status"}, wide, func(r *row) { r.Fabric.Status = r.slug() }},
}

// column is one field of a query, with the name by which this nvidia-smi knows it.
type column struct {
	field
	asked string
}

// coreColumns are asked for where the help cannot be read. Every nvidia-smi knows the last field by its older name alone.
func coreColumns() []column {
	var columns []column
	for _, f := range fields {
		if f.block == core {
			columns = append(columns, column{f, f.name()})
		}
	}
	last := &columns[len(columns)-1]
	last.asked = last.names[1]
	return columns
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
		names[i] = c.asked
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
		for _, c := range coreColumns() {
			if !slices.Contains(p.refused, c.asked) {
				p.columns = append(p.columns, c)
			}
		}
		return p.known != nil
	}
	for _, f := range fields {
		i := slices.IndexFunc(f.names, p.usable)
		older := strings.HasPrefix(f.name(), olderRecovery) && p.has(fieldRecovery)
		if i >= 0 && !older && (f.block != wide || p.slow.IsZero()) {
			p.columns = append(p.columns, column{f, f.names[i]})
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
	return slices.ContainsFunc(p.columns, func(c column) bool { return c.name() == field })
}

// refuse drops a field that nvidia-smi does not take. It reports false if nothing is left to try.
func (p *plan) refuse(name string) bool {
	if !slices.ContainsFunc(p.columns, func(c column) bool { return c.asked == name }) {
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
