package command

import (
	"encoding/json"
	"strings"
)

// columns is how wide help is.
const columns = 80

// The formats of a command's output.
const (
	Table = "table"
	JSON  = "json"
)

// CheckFormat refuses a value that -o does not have.
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

// Fold breaks a text at spaces into lines of at most most characters, behind a comma or the like if it can: so a command within the text
// stays whole.
func Fold(text string, most int) []string {
	var lines []string
	for len(text) > most {
		at := strings.LastIndexByte(text[:most+1], ' ')
		for i := at; i > most/2; i-- {
			if text[i] == ' ' && strings.IndexByte(",;:.)", text[i-1]) >= 0 {
				at = i
				break
			}
		}
		if at <= 0 {
			at = strings.IndexByte(text, ' ')
		}
		if at <= 0 {
			break
		}
		lines = append(lines, text[:at])
		text = text[at+1:]
	}
	return append(lines, text)
}
