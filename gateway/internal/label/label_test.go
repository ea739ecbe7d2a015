package label

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
)

func some(v float64) *float64 { return &v }

func TestPriceOf(t *testing.T) {
	for text, want := range map[string]*float64{
		"1.99": some(1.99), "0": some(0.0), "12": some(12.0), ".5": some(.5), "1000000": some(1e6), "": nil, "1,99": nil, "$2": nil, "-1": nil,
		"1e3": nil, "0x1p4": nil, "NaN": nil, "Inf": nil, "1.2.3": nil, ".": nil, "1000000.1": nil, "99999999999999999999999999": nil, " 1": nil,
	} {
		got := PriceOf(map[string]string{Price: text})
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	if PriceOf(nil) != nil {
		t.Error("a node without labels has a price")
	}
}

func FuzzPriceOf(f *testing.F) {
	f.Add("1.99")
	f.Add("1e9")
	f.Fuzz(func(t *testing.T, text string) {
		if p := PriceOf(map[string]string{Price: text}); p != nil && !(*p >= 0 && *p <= mostPrice) {
			t.Errorf("%q: %v", text, *p)
		}
	})
}

// TestCheck: a value that the gateway reads must be one that it can read; the refusal says how it is written.
func TestCheck(t *testing.T) {
	for pair, says := range map[string]string{
		"price_per_hour=1.99":                    "",
		"price_per_hour=":                        "",
		"price_per_hour=cheap":                   "such as price_per_hour=1.99",
		"price_per_hour=-1":                      "without its sign",
		"price_per_hour=NaN":                     "a number from 0",
		"channel=canary":                         "",
		"channel=":                               "",
		"channel=two words":                      "such as channel=stable",
		"maintenance-window=Sat Sun 02:00-04:00": "",
		"maintenance-window=":                    "",
		"maintenance-window=at night":            "Sat Sun 02:00-04:00",
		"ssh_user=ada":                           "",
		"ssh_user=":                              "",
		"ssh_user=-oProxyCommand=id":             "such as ssh_user=ada",
		"ssh_user=a b":                           "such as ssh_user=ada",
		"ssh_port=2222":                          "",
		"ssh_port=ssh":                           "such as ssh_port=2222",
		"ssh_port=0":                             "such as ssh_port=2222",
		"tier=at night":                          "",
		"tenant=x":                               "choose another name",
	} {
		key, value, _ := strings.Cut(pair, "=")
		err := Check(map[string]string{key: value})
		var refused *wire.ErrorDetail
		switch {
		case says == "" && err != nil:
			t.Errorf("%s: %v", pair, err)
		case says != "" && (!errors.As(err, &refused) || !strings.Contains(refused.Hint, says)):
			t.Errorf("%s: got %v, want a hint with %q", pair, err, says)
		}
	}
}

// TestUnderstood: what cannot be read is left out and named; the caller's map stays as it is.
func TestUnderstood(t *testing.T) {
	given := map[string]string{Price: "cheap", "channel": "a b", "tier": "x"}
	good, dropped := Understood(given)
	if !maps.Equal(good, map[string]string{"tier": "x"}) || !slices.Equal(dropped, []string{"channel", Price}) || len(given) != 3 {
		t.Errorf("got %v, %v of %v", good, dropped, given)
	}
	if good, dropped = Understood(map[string]string{"channel": "canary", "maintenance-window": "22:00-04:00"}); len(good) != 0 || len(dropped) != 2 {
		t.Errorf("what has no power from an agent: %v, %v", good, dropped)
	}
	if good, dropped = Understood(map[string]string{Price: "2"}); len(good) != 1 || dropped != nil {
		t.Errorf("of good ones: %v, %v", good, dropped)
	}
}
