package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/paste"
)

// asked is what the words of task run say.
type asked struct {
	nodes  []string
	kind   wire.TaskType
	params json.RawMessage
}

// readWords separates NODE... TYPE NAME=VALUE... No name of a node or a type has a =, so the type is the last word without one.
func readWords(s *cli.Session) (asked, error) {
	var a asked
	var assignments []string
	for _, word := range s.Words {
		switch {
		case strings.Contains(word, "="):
			assignments = append(assignments, word)
		case len(assignments) > 0:
			return a, cli.Usagef("write NODE... TYPE NAME=VALUE...", "%q stands behind the params", word)
		default:
			a.nodes = append(a.nodes, word)
		}
	}
	if len(a.nodes) == 0 {
		return a, cli.Usagef("muster task types shows what there is", "muster task run: which type of task?")
	}
	name := a.nodes[len(a.nodes)-1]
	a.nodes = a.nodes[:len(a.nodes)-1]
	var err error
	if a.kind, err = findType(name); err != nil {
		if !strings.ContainsAny(name, "._") && len(s.Words) == 1 { // it looks like a node
			return a, cli.Usagef("write muster task run "+paste.Quote(name)+" TYPE; muster task types lists the types",
				"muster task run: the type of the task is missing behind %q", name)
		}
		return a, err
	}
	a.params, err = readParams(s, a.kind, assignments)
	return a, err
}

// findType turns the refusal of an unknown type into a usage error.
func findType(name string) (wire.TaskType, error) {
	kind, err := wire.FindTaskType(name)
	return kind, cli.AsUsage(err)
}

// readParams joins the file of --params, the words and --timeout, and checks them as the gateway and the node will.
func readParams(s *cli.Session, kind wire.TaskType, assignments []string) (json.RawMessage, error) {
	values := map[string]any{}
	var o struct {
		Params  string
		Timeout time.Duration `flag:"timeout,seconds"`
	}
	if err := s.Flags.Into(&o); err != nil {
		return nil, err
	}
	if o.Params != "" {
		raw, err := s.ReadFile(o.Params)
		if err != nil {
			return nil, fmt.Errorf("read the params: %w", err)
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber() // a number keeps its digits
		if err := errors.Join(sign.DecodeStrict(raw, &map[string]any{}), d.Decode(&values)); err != nil {
			return nil, cli.Usagef(`it holds one JSON object, such as {"all":true}`, "%s has no params: %v", o.Params, err)
		}
	}
	fromFile := len(values) > 0
	given := map[string]bool{}
	for _, text := range assignments {
		name, _, _ := strings.Cut(text, "=")
		if given[name] && !adds(values[name]) {
			return nil, cli.Twice("the param", name)
		}
		given[name] = true
		if err := assign(s, kind, values, text); err != nil {
			return nil, err
		}
	}
	if o.Timeout > 0 {
		if given["timeout_seconds"] {
			return nil, cli.Twice("with --timeout, the param", "timeout_seconds")
		}
		values["timeout_seconds"] = int(o.Timeout / time.Second)
	}
	raw, err := sign.Encode(values)
	if err == nil {
		err = checkParams(kind, raw, fromFile)
	}
	return raw, cli.AsUsage(err)
}

// checkParams refuses here what the gateway would refuse for every node.
func checkParams(kind wire.TaskType, raw []byte, fromFile bool) error {
	params := kind.New()
	if err := sign.DecodeStrict(raw, params); err != nil {
		source := "the params"
		if fromFile {
			source = "the file of --params"
		}
		return cli.Usagef("muster task types "+kind.Name+" shows the params", "%s: %v", source, err)
	}
	if launch, ok := params.(*wire.WorkloadLaunch); ok {
		return launch.CheckTagged() // the gateway adds a digest
	}
	return params.Check()
}

// assign reads one NAME=VALUE. A value from the words replaces the one of the file; of a list or a map, further words add to the first.
func assign(s *cli.Session, kind wire.TaskType, values map[string]any, text string) error {
	name, value, _ := strings.Cut(text, "=")
	param, err := findParam(kind, name)
	if err != nil {
		return err
	}
	wrong := func(want string) error { return cli.Usagef("it takes "+want, "%s cannot be %.60q", name, value) }
	switch param.Kind {
	case wire.ParamFlag:
		on, err := strconv.ParseBool(value)
		if err != nil {
			return wrong("true or false")
		}
		values[name] = on
	case wire.ParamInt:
		n, err := strconv.Atoi(value)
		if err != nil {
			return wrong("a whole number")
		}
		values[name] = n
	case wire.ParamList:
		return addToList(s, values, name, value)
	case wire.ParamMap:
		return addToMap(s, values, name, value)
	default:
		content, err := expand(s, value)
		values[name] = strings.TrimSuffix(content, "\n")
		return err
	}
	return nil
}

func findParam(kind wire.TaskType, name string) (wire.TaskParam, error) {
	var names []string
	for _, p := range kind.Params() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return wire.TaskParam{}, cli.Usagef("its params are "+strings.Join(names, ", "), "%s has no param %.60q", kind.Name, name)
}

// words marks a list or a map that began in the words. Only to such a one do further words add.
type (
	listOfWords []string
	mapOfWords  map[string]string
)

// adds tells whether further words add to a value.
func adds(value any) bool {
	switch value.(type) {
	case listOfWords, mapOfWords:
		return true
	}
	return false
}

func addToList(s *cli.Session, values map[string]any, name, value string) error {
	list, _ := values[name].(listOfWords)
	if !strings.HasPrefix(value, "@") || strings.HasPrefix(value, "@@") {
		values[name] = append(list, strings.TrimPrefix(value, "@"))
		return nil
	}
	content, err := expand(s, value)
	for line := range strings.Lines(content) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			list = append(list, line)
		}
	}
	values[name] = list
	return err
}

func addToMap(s *cli.Session, values map[string]any, name, value string) error {
	key, text, found := strings.Cut(value, "=")
	if !found || key == "" {
		return cli.Usagef("write "+name+"=KEY=VALUE", "%s cannot be %.60q", name, value)
	}
	known, _ := values[name].(mapOfWords)
	if known == nil {
		known = mapOfWords{}
	}
	if _, twice := known[key]; twice {
		return cli.Twice("in "+name+", the key", key)
	}
	content, err := expand(s, text)
	known[key] = strings.TrimSuffix(content, "\n")
	values[name] = known
	return err
}

// expand reads @FILE. Two @ stand for one.
func expand(s *cli.Session, value string) (string, error) {
	file, isFile := strings.CutPrefix(value, "@")
	if !isFile || strings.HasPrefix(file, "@") {
		return file, nil
	}
	raw, err := s.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the value: %w", err)
	}
	return string(raw), nil
}
