package gpu

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
)

// maxCaptureTries bounds how often a capture leaves out a field that the help lists and the query refuses.
const maxCaptureTries = 8

// Capture returns what this machine's nvidia-smi prints, for a bug report: every field that it knows, with header and units, and
// the list of devices, with both streams and the exit codes. It replaces serial numbers, UUIDs and the like by zeros of the same
// shape. It does not ask for processes. If nvidia-smi is missing, busy or hangs, it returns an error and what it has so far.
func (p *Prober) Capture(ctx context.Context) ([]byte, error) {
	patient, cancel := context.WithTimeout(ctx, p.deadline())
	defer cancel()
	path, err := p.claim(ctx, patient)
	if err != nil {
		return nil, fmt.Errorf("nvidia-smi cannot be captured (--nvidia-smi names another one): %w", err)
	}
	defer p.end()
	c := capture{prober: p, path: path}
	fields, err := c.fields(ctx)
	if err == nil {
		err = c.query(ctx, fields)
	}
	if err == nil {
		_, err = c.call(ctx, false, "-L")
	}
	return c.report.Bytes(), err
}

// capture is one capture while it is made.
type capture struct {
	prober *Prober
	path   string
	report bytes.Buffer
}

// fields asks for the first name of every property. If that fails, it gives the core fields.
func (c *capture) fields(ctx context.Context) (names []string, err error) {
	out, err := c.prober.finished(ctx, c.path, "--help-query-gpu")
	if err != nil {
		return nil, err
	}
	for _, field := range ParseHelp(out.Stdout) {
		names = append(names, field.Name)
	}
	if out.Code == 0 && len(names) > 0 {
		return names, nil
	}
	c.print([]string{"--help-query-gpu"}, out)
	names = nil
	for _, column := range coreColumns() {
		names = append(names, column.asked)
	}
	return names, nil
}

// query asks for fields, and leaves out those that nvidia-smi refuses.
func (c *capture) query(ctx context.Context, fields []string) error {
	for range maxCaptureTries {
		out, err := c.call(ctx, true, "--query-gpu="+strings.Join(fields, ","), "--format=csv")
		if err != nil {
			return err
		}
		at := slices.Index(fields, invalidField(out))
		if at < 0 {
			return nil
		}
		fields = slices.Delete(fields, at, at+1)
	}
	return nil
}

// call makes one call and prints it masked. table says that the answer has columns.
func (c *capture) call(ctx context.Context, table bool, args ...string) (Output, error) {
	out, err := c.prober.finished(ctx, c.path, args...)
	if err != nil {
		return out, err
	}
	if table {
		out.Stdout = maskTable(out.Stdout)
	}
	c.print(args, out)
	return out, nil
}

func (c *capture) print(args []string, out Output) {
	fmt.Fprintf(&c.report, "$ nvidia-smi %s\n# exit %d, %d ms\n", strings.Join(args, " "), out.Code, out.Took.Milliseconds())
	if out.Err != nil {
		fmt.Fprintf(&c.report, "# %s\n", startFailure(out.Err))
	}
	c.report.Write(mask(out.Stdout))
	for _, line := range lines(mask(out.Stderr)) {
		fmt.Fprintf(&c.report, "stderr: %s\n", line)
	}
	c.report.WriteByte('\n')
}

// maskTable blanks the columns that identify a machine. If a row has more or fewer cells than the header, nobody can tell
// which cell is which: then it blanks the whole row.
func maskTable(text []byte) []byte {
	all := strings.SplitAfter(string(text), "\n")
	header := strings.Split(all[0], ",")
	for n, line := range all[1:] {
		cells := strings.Split(line, ",")
		for i, cell := range cells {
			_, kind := classify(cell)
			if kind == present && len(cells) > 1 && (len(cells) != len(header) || identifies(header[i])) {
				cells[i] = blank(cell)
			}
		}
		all[n+1] = strings.Join(cells, ",")
	}
	return []byte(strings.Join(all, ""))
}

// identifies reports whether the values of a column tell one machine or board from others of the same kind.
func identifies(header string) bool {
	name := strings.ToLower(header)
	for _, part := range []string{"uuid", "serial", "guid", "hostname", "host_id", "part_number", "board", "chassis",
		"slot", "tray", "module_id", "cliqueid", "rack", "asset", "pdi"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// mask blanks UUIDs wherever they stand.
func mask(text []byte) []byte {
	const form = "00000000-0000-0000-0000-000000000000"
	text = bytes.Clone(text)
	for at := range max(len(text)-len(form)+1, 0) {
		if isUUID(text[at:at+len(form)], form) {
			copy(text[at:], form)
		}
	}
	return text
}

func isUUID(text []byte, form string) bool {
	for i, c := range text {
		dash := form[i] == '-'
		if dash != (c == '-') || !dash && strings.IndexByte("0123456789abcdefABCDEF", c) < 0 {
			return false
		}
	}
	return true
}

// blank makes every digit and letter a zero. It keeps the prefixes by which nvidia-smi marks a UUID.
func blank(text string) string {
	for _, prefix := range []string{"GPU-", "MIG-"} {
		if before, after, ok := strings.Cut(text, prefix); ok && strings.TrimSpace(before) == "" {
			return before + prefix + blank(after)
		}
	}
	return strings.Map(func(r rune) rune {
		if r > 127 || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return '0'
		}
		return r
	}, text)
}
