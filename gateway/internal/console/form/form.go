// Package form reads what a person has written into the fields of a form. What cannot be read is refused, with the field's name and an
// example.
package form

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/flags"
	"muster/agent/wire"
	"muster/gateway/api"
)

// paramField begins the names of the fields for a task's params.
const paramField = "param."

// Number reads the number in a field; 0: the field is empty.
func Number(field, text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, wire.Refuse(wire.CodeBadRequest, "the field "+field+" is no whole number", "write 8, or leave it empty")
	}
	return n, nil
}

// Duration reads the duration in a field, which must be a second at least; 0: the field is empty.
func Duration(field, text string) (api.Duration, error) {
	if text == "" {
		return 0, nil
	}
	const hint = "write 30m, 12h or 7d, or leave it empty"
	d, err := flags.ParseDuration(text)
	var wrong *flags.DurationError
	switch {
	case errors.As(err, &wrong):
		return 0, wire.Refuse(wire.CodeBadRequest, "the field "+field+" "+wrong.Problem, hint)
	case d < time.Second:
		return 0, wire.Refuse(wire.CodeBadRequest, "the field "+field+" is shorter than a second", hint)
	}
	return api.Duration(d), nil
}

// Pairs reads pairs NAME=text, with a comma or a new line between them.
func Pairs(text string) (map[string]string, error) {
	parts := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' })
	parts = slices.DeleteFunc(parts, func(part string) bool { return strings.TrimSpace(part) == "" })
	pairs := map[string]string{}
	for _, part := range parts {
		name, value, ok := strings.Cut(part, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, wire.Refuse(wire.CodeBadRequest, "a label is not NAME=text", "write tier=sovereign, one in a line")
		}
		if _, there := pairs[name]; there {
			return nil, twice(name)
		}
		pairs[name] = strings.TrimSpace(value)
	}
	return pairs, nil
}

func twice(name string) error {
	return wire.Refuse(wire.CodeBadRequest, "the label "+name+" stands twice", "write it once")
}

// Words splits a text at commas and blanks.
func Words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// Labels reads labels to set, such as tier=spot, and -rack to remove one.
func Labels(text string) (api.LabelsRequest, error) {
	var request api.LabelsRequest
	var set []string
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if name, ok := strings.CutPrefix(part, "-"); ok {
			request.Remove = append(request.Remove, name)
			continue
		}
		set = append(set, part)
	}
	var err error
	request.Set, err = Pairs(strings.Join(set, ","))
	for i, name := range request.Remove {
		if _, sets := request.Set[name]; sets || slices.Contains(request.Remove[:i], name) {
			err = twice(name)
		}
	}
	if err == nil && len(request.Set)+len(request.Remove) == 0 {
		err = wire.Refuse(wire.CodeBadRequest, "no label is given", "write tier=spot to set one, and -rack to remove one")
	}
	return request, err
}

// Params makes the params of a task. Empty fields are left out.
func Params(known []wire.TaskParam, values url.Values) (json.RawMessage, error) {
	params := map[string]any{}
	for _, p := range known {
		text := strings.TrimSpace(values.Get(paramField + p.Name))
		if text == "" {
			continue
		}
		value, err := paramIn(p, text)
		if err != nil {
			return nil, err
		}
		params[p.Name] = value
	}
	return json.Marshal(params)
}

func paramIn(p wire.TaskParam, text string) (any, error) {
	switch p.Kind {
	case wire.ParamFlag:
		return text == "true", nil
	case wire.ParamInt:
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, wire.Refuse(wire.CodeTaskParamsInvalid, "the field "+p.Name+" is no whole number", "write 8, or leave it empty")
		}
		return n, nil
	case wire.ParamList:
		return lines(text), nil
	case wire.ParamMap:
		pairs := map[string]string{}
		for _, line := range lines(text) {
			name, value, ok := strings.Cut(line, "=")
			if !ok || name == "" {
				return nil, wire.Refuse(wire.CodeTaskParamsInvalid, "a line of the field "+p.Name+" is not NAME=text", "write one NAME=text in a line")
			}
			if _, there := pairs[name]; there {
				return nil, wire.Refuse(wire.CodeTaskParamsInvalid, "the field "+p.Name+" has "+name+" twice", "write it once")
			}
			pairs[name] = value
		}
		return pairs, nil
	}
	return text, nil
}

// lines are those that are not empty.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" {
			all = append(all, line)
		}
	}
	return all
}
