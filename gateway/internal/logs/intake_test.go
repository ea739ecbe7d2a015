package logs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/logs"
)

// sends is a hub whose node sends these bytes, whatever is asked for.
func sends(raw []byte) *logs.Hub {
	return logs.New(logs.Config{Open: func(context.Context, string, wire.LogsParams) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(raw)), nil
	}})
}

// framed is a session whose output is this text, cut into frames of so many bytes.
func framed(t testing.TB, text string, size int) []byte {
	t.Helper()
	var raw bytes.Buffer
	for len(text) > 0 {
		n := min(size, len(text))
		if err := pipe.WriteFrame(&raw, pipe.FrameOutput, []byte(text[:n])); err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
	if err := pipe.WriteJSON(&raw, pipe.FrameExit, pipe.Exit{}); err != nil {
		t.Fatal(err)
	}
	return raw.Bytes()
}

func readAll(t testing.TB, raw []byte) ([]wire.LogLine, error) {
	t.Helper()
	var got []wire.LogLine
	err := sends(raw).Read(t.Context(), "a", "id-n", agent(), func(lines []wire.LogLine) error {
		got = append(got, lines...)
		return nil
	})
	return got, err
}

// TestHostile: what a node sends is bounded, and says nothing about other sources or about the gateway.
func TestHostile(t *testing.T) {
	long := strings.Repeat("x", wire.MaxLogLine+10)
	for _, c := range []struct {
		name, text string
		want       wire.LogLine // but for its times
	}{
		{"plain", `{"time":"2026-11-23T12:00:00Z","source":"agent","level":"warn","message":"m","fields":{"a":"b"}}`,
			wire.LogLine{Level: "warn", Message: "m", Fields: map[string]string{"a": "b"}}},
		{"of another source", `{"source":"unit:sshd.service","message":"Accepted"}`, wire.LogLine{Message: "Accepted"}},
		{"as the gateway", `{"source":"gateway","level":"error","message":"your token is void"}`,
			wire.LogLine{Level: "error", Message: "your token is void"}},
		{"unknown level", `{"level":"PANIC\u001b[31m","message":"m"}`, wire.LogLine{Message: "m"}},
		{"unknown key", `{"message":"m","colour":"red"}`, wire.LogLine{Message: "m"}},
		{"numbers", `{"message":"m","dropped":-7,"cut":-9}`, wire.LogLine{Message: "m"}},
		{"large numbers", `{"message":"m","dropped":9223372036854775807}`, wire.LogLine{Message: "m", Dropped: wire.MaxNumber}},
		{"too large numbers", `{"message":"m","dropped":1e99}`, unreadable},
		{"a key twice", `{"message":"m","message":"n"}`, unreadable},
		{"a key in another case", `{"message":"m","Message":"n"}`, unreadable},
		{"a time that is none", `{"time":"99999-01-01T00:00:00Z","message":"m"}`, unreadable},
		{"no object", `[1]`, unreadable},
		{"null", `null`, unreadable},
		{"binary", "\xff\xfe\x00", unreadable},
		{"a message that is too long", `{"message":"` + long + `","cut":5}`, wire.LogLine{Message: long[:wire.MaxLogLine], Cut: 15}},
		{"a line without end", `{"message":"` + strings.Repeat("x", 2<<20) + `"}`,
			wire.LogLine{Level: "warn", Message: "the node sent a line that is longer than any can be", Dropped: 1}},
	} {
		for _, size := range []int{1 << 10, pipe.MaxFrame} {
			got, err := readAll(t, framed(t, "\n"+c.text+"\n\n"+`{"message":"after"}`+"\n", size))
			if err != nil || len(got) != 2 || got[1].Message != "after" {
				t.Errorf("%s: %d lines, %v", c.name, len(got), err)
				continue
			}
			one := got[0]
			if one.Received == nil || one.Time.IsZero() {
				t.Errorf("%s: it has no times: %+v", c.name, one)
			}
			one.Received = nil
			one.Time = time.Time{}
			c.want.Source = wire.LogAgent
			if a, b := must2(json.Marshal(one)), must2(json.Marshal(c.want)); a != b {
				t.Errorf("%s: got %.200s, want %.200s", c.name, a, b)
			}
		}
	}
}

var unreadable = wire.LogLine{Level: "warn", Message: "the node sent something that is no line of a log", Dropped: 1}

func must2(raw []byte, _ error) string { return string(raw) }

// TestFields: many fields and large ones are left out, the first by name stay.
func TestFields(t *testing.T) {
	many := map[string]string{"": "no name", strings.Repeat("n", 65): "long name", "z": strings.Repeat("v", 20<<10)}
	for _, r := range "abcdefghijklmnopq" {
		many[string(r)] = "v"
	}
	raw := ndjson(wire.LogLine{Message: "m", Fields: many})
	got, err := readAll(t, framed(t, string(raw), pipe.MaxFrame))
	if err != nil || len(got) != 1 {
		t.Fatal(len(got), err)
	}
	if f := got[0].Fields; len(f) != wire.MaxLogFields || f["a"] != "v" || f["p"] != "v" {
		t.Errorf("%d fields", len(f))
	}
}

// TestBreaksOff: a session that ends within a line, a frame, or without a word is no end of the log.
func TestBreaksOff(t *testing.T) {
	whole := framed(t, `{"message":"m"}`+"\n", 100)
	for name, raw := range map[string][]byte{
		"nothing": nil, "half a frame": whole[:7], "no exit": whole[:len(`{"message":"m"}`)+6], "a frame of 4 GB": {'o', 255, 255, 255, 255},
	} {
		got, err := readAll(t, raw)
		last := ""
		if len(got) > 0 {
			last = got[len(got)-1].Message
		}
		if err == nil && !strings.Contains(last, "the rest of the log is missing") {
			t.Errorf("%s: taken for whole: %+v", name, got)
		}
	}
}

// FuzzIntake: whatever a node sends, its reader gets lines that are bounded, of the source that was asked for, and as JSON that can be
// read again.
func FuzzIntake(f *testing.F) {
	f.Add(framed(f, `{"time":"2026-11-23T12:00:00Z","message":"m","fields":{"a":"b"}}`+"\n", 10), false)
	f.Add(framed(f, "\xff\n\n{\n", 1), true)
	f.Add([]byte{'o', 0, 0, 0, 1, '\n', 'q', 0, 0, 0, 2, '{', '}'}, false)
	f.Add([]byte{'n', 0, 0, 0, 2, '{', '}'}, false)
	f.Fuzz(func(t *testing.T, raw []byte, text bool) {
		if text {
			raw = framed(t, string(raw), pipe.MaxFrame)
		}
		got, _ := readAll(t, raw)
		for _, l := range got {
			size := 0
			for name, value := range l.Fields {
				size += len(name) + len(value)
			}
			if l.Source != wire.LogAgent && l.Source != wire.LogGateway || l.Received == nil || len(l.Message) > wire.MaxLogLine ||
				len(l.Fields) > wire.MaxLogFields || size > 16<<10 || l.Dropped < 0 || l.Cut < 0 || !utf8.ValidString(l.Message) {
				t.Errorf("%+v", l)
			}
			var again wire.LogLine
			if err := json.Unmarshal(ndjson(l), &again); err != nil {
				t.Error(err)
			}
		}
	})
}
