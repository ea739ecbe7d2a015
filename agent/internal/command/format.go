package command

import "encoding/json"

// The formats of a command's output.
const (
	Table = "table"
	JSON  = "json"
)

// CheckFormat refuses another value of -o.
func CheckFormat(format string) error {
	if format != Table && format != JSON {
		return Usagef("-o is table or json")
	}
	return nil
}

// PrintJSON prints a value for programs, indented so that people can read it too.
func (p Program) PrintJSON(value any) error {
	encoder := json.NewEncoder(p.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
