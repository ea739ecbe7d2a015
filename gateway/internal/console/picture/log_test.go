package picture_test

import (
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/console/picture"
)

func TestLogRow(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 1, 5e6, time.UTC)
	for _, c := range []struct {
		line wire.LogLine
		want picture.LogRow
	}{
		{wire.LogLine{Time: at, Received: &at, Source: "agent", Level: "warn", Message: "m\tn", Fields: map[string]string{"b": "2", "a": "\x07"}},
			picture.LogRow{Exact: "2026-11-23 12:00:01.005 UTC, here 12:00:01", Level: "warn", Class: "warn", Source: "agent", Text: "m\tn",
				Fields: `a=\u0007 b=2`}},
		{wire.LogLine{Time: at, Source: "agent", Message: "\x1b[2J\u202egpj\u2028\ufffd\u200b", Cut: 3},
			picture.LogRow{Exact: "2026-11-23 12:00:01.005 UTC", Source: "agent", Text: `\u001b[2J\u202egpj\u2028\ufffd\u200b [3 more bytes]`}},
		{wire.LogLine{Time: at, Source: "agent", Level: "warn", Message: "too slow", Dropped: 7},
			picture.LogRow{Exact: "2026-11-23 12:00:01.005 UTC", Level: "warn", Class: "missing", Source: "agent",
				Text: "7 missing here: too slow"}},
		{wire.LogLine{Time: at, Source: wire.LogGateway, Level: "info", Message: "it is back"},
			picture.LogRow{Exact: "2026-11-23 12:00:01.005 UTC", Level: "info", Class: "missing", Source: "gateway", Text: "it is back"}},
	} {
		c.want.Time = "12:00:01.005"
		if got := picture.LogRowOf(c.line); got != c.want {
			t.Errorf("got %+v\nwant %+v", got, c.want)
		}
	}
}

func TestAgent(t *testing.T) {
	skew := int64(-1500)
	small := int64(20)
	kib := int64(6400)
	for got, want := range map[string]string{
		picture.Clock(nil): picture.Unknown, picture.Clock(&skew): "1.5 s ahead of the gateway", picture.Clock(&small): "as the gateway's",
		picture.OwnMemory(nil) + "!": picture.Unknown + "!", picture.OwnMemory(&wire.Cost{RSSKiB: &kib}): "6.2 MiB",
		picture.Browser("Mozilla/5.0 Chrome/1 Edg/2"): "Edge", picture.Browser(""): picture.Dash(""),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
