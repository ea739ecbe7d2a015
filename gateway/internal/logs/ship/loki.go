package ship

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of what Loki takes of one node's clock by default, with some room. A line with another time gets the gateway's.
const (
	oldest = 6 * 24 * time.Hour
	newest = 5 * time.Minute
)

// stream is one of a push. Its labels are few, because each set of values is a stream.
type stream struct {
	Labels labels  `json:"stream"`
	Values []value `json:"values"`
}

type labels struct {
	Tenant string `json:"tenant"`
	Node   string `json:"node"`
	Source string `json:"source"`
}

// value is a time in nanoseconds as text, a line, and its structured metadata.
type value [3]any

// encode makes the body of a push. Streams come in the order of their first lines, and the lines of a stream in their order.
func encode(lines []kept, now time.Time) (body []byte, size int, err error) {
	var push struct {
		Streams []stream `json:"streams"`
	}
	at := map[labels]int{}
	for i := range lines {
		l := labels{Tenant: lines[i].Tenant, Node: lines[i].Node, Source: lines[i].Line.Source}
		place, known := at[l]
		if !known {
			place = len(push.Streams)
			at[l] = place
			push.Streams = append(push.Streams, stream{Labels: l})
		}
		push.Streams[place].Values = append(push.Streams[place].Values, lines[i].value(now))
	}
	text, err := json.Marshal(push)
	if err != nil {
		return nil, 0, err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(text) // into memory
	_ = w.Close()
	return packed.Bytes(), len(text), nil
}

// value is a line as Loki takes it. Its message has at most wire.MaxLogLine bytes, which is far below what Loki drops.
func (k *kept) value(now time.Time) value {
	l := &k.Line
	meta := map[string]string{"node_id": k.ID}
	for _, key := range slices.Sorted(maps.Keys(l.Fields)) {
		meta[metaName(key)] = l.Fields[key]
	}
	at := l.Time
	if at.Before(now.Add(-oldest)) || at.After(now.Add(newest)) {
		meta["node_time"] = at.UTC().Format(time.RFC3339Nano)
		at = now
		if l.Received != nil && l.Received.After(now.Add(-oldest)) {
			at = *l.Received
		}
	}
	for key, text := range map[string]string{"level": l.Level, "node_id": k.ID} { // no field takes their places
		if text != "" {
			meta[key] = text
		}
	}
	for key, n := range map[string]int64{"cut_bytes": int64(l.Cut), "dropped_lines": l.Dropped} {
		if n > 0 {
			meta[key] = strconv.FormatInt(n, 10)
		}
	}
	return value{strconv.FormatInt(at.UnixNano(), 10), l.Message, meta}
}

// metaName makes a field's name one that Loki takes.
func metaName(key string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, key)
	if clean == "" || clean[0] >= '0' && clean[0] <= '9' {
		clean = "_" + clean
	}
	return clean
}
