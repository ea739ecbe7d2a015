package command

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// Labels collects --label KEY=VALUE, which may be repeated. In MUSTER_LABEL commas separate the labels.
type Labels map[string]string

// String returns the form that Set reads.
func (l Labels) String() string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(l)) {
		parts = append(parts, key+"="+l[key])
	}
	return strings.Join(parts, ",")
}

// Set adds the labels of one flag.
func (l Labels) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" {
			return errors.New("a label is KEY=VALUE, such as tier=sovereign")
		}
		if _, twice := l[key]; twice {
			return errors.New("the label " + key + " is given twice")
		}
		l[key] = strings.TrimSpace(value)
	}
	return nil
}
