package gpu

import (
	"slices"
	"strings"
	"time"
)

// Fields that are asked for, by the names that drivers 590 to 610 use.
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
)

const (
	maxRefused  = 4                // fields that are given up one by one before only the core is asked for
	helpAgain   = 10 * time.Minute // when to ask for the fields again after that failed
	maxFields   = 4096             // of a help text
	fieldLetter = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)

// column is one field of a query: what it means to us and how this nvidia-smi calls it.
type column struct{ field, name string }

// wanted lists the columns of a query with the older or other names of each.
func wanted() [][]string {
	return [][]string{
		{fieldIndex}, {fieldUUID, "gpu_uuid"}, {fieldName, "gpu_name"}, {fieldBus, "gpu_bus_id"}, {fieldDriver}, {fieldMIG},
		{fieldMemoryTotal}, {fieldMemoryUsed}, {fieldUtilization}, {fieldTemperature}, {fieldPower},
		{fieldPowerLimit, "power.limit"}, {fieldECC}, {fieldRemapWaits}, {fieldRemapFailed}, {fieldRecovery},
	}
}

// core is what every nvidia-smi of the last ten years knows, asked for when the help cannot be read.
func core() []column {
	columns := []column{{fieldPowerLimit, "power.limit"}}
	for _, field := range []string{fieldIndex, fieldUUID, fieldName, fieldBus, fieldDriver, fieldMemoryTotal, fieldMemoryUsed,
		fieldUtilization, fieldTemperature, fieldPower} {
		columns = append(columns, column{field, field})
	}
	return columns
}

// plan is what is asked for, and from which knowledge.
type plan struct {
	known   []Field // what the help lists; nil: not read
	columns []column
	refused []string  // fields that a query was refused for though the help has them
	again   time.Time // when to try the help again; zero: it was read
	driver  string    // the driver that the help was read under
}

// ready reports whether the plan can be used; otherwise the help is to be read first.
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

// resolve makes the plan from an answer to --help-query-gpu. A help without an index or a UUID is not one to believe.
func (p *plan) resolve(help Output, now time.Time) {
	p.known, p.again, p.driver = ParseHelp(help.Stdout), time.Time{}, ""
	if help.Err != nil || help.Code != 0 || !p.choose() {
		p.known, p.again = nil, now.Add(helpAgain)
		p.choose()
	}
}

// choose picks the columns out of what is known, less what was refused. It reports false when too little is left of a help.
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
	for _, names := range wanted() {
		if i := slices.IndexFunc(names, p.usable); i >= 0 {
			p.columns = append(p.columns, column{names[0], names[i]})
		}
	}
	return p.has(fieldIndex) && p.has(fieldUUID)
}

func (p *plan) usable(name string) bool {
	return !slices.Contains(p.refused, name) && slices.ContainsFunc(p.known, func(f Field) bool {
		return f.Name == name || slices.Contains(f.Aliases, name)
	})
}

func (p *plan) has(field string) bool {
	return slices.ContainsFunc(p.columns, func(c column) bool { return c.field == field })
}

// refuse drops a field that nvidia-smi does not take. It reports false when there is nothing left to try.
func (p *plan) refuse(name string) bool {
	if !slices.ContainsFunc(p.columns, func(c column) bool { return c.name == name }) {
		return false
	}
	p.refused = append(p.refused, name)
	if !p.choose() && p.known != nil {
		p.known = nil
		p.choose()
	}
	return p.has(fieldIndex) && p.has(fieldUUID)
}

// note remembers the driver that answered. Another one than before may know other fields: the help is read again.
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

// ParseHelp reads the answer to --help-query-gpu. A property stands at the start of a line, in quotes, with its other names
// behind it ("a" or "b"); all else is description. Text that is no help yields nothing.
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
