package health_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/health/condition"
	records "muster/store/health"
)

func (d *world) set(rule, selector string, limit *float64, off bool) {
	d.t.Helper()
	d.now = d.now.Add(time.Second)
	if _, err := d.Set(d.t.Context(), records.Setting{Rule: rule, Selector: selector, Limit: limit, Off: off}, operator); err != nil {
		d.t.Fatal(err)
	}
}

// TestWhichSettingCounts: the one with more terms, then the later one, and it counts as a whole.
func TestWhichSettingCounts(t *testing.T) {
	d := newWorld(t, "n-1")
	d.nodes["n-1"].Labels = map[string]string{"tier": "lab", "rack": "7"}
	d.set(condition.GPUHot, "", to(70.0), false)
	d.until("n-1", hot(75), []string{condition.GPUHot})
	d.set(condition.GPUHot, "tier=lab", nil, true)
	d.Round(t.Context())
	d.flush()
	if got := d.rules("n-1"); len(got) != 0 || d.events("health.cured")[0].Detail["why"] == "" {
		t.Errorf("switched off: %v", got)
	}
	for range 10 {
		d.hear("n-1", hot(99))
	}
	if got := d.rules("n-1"); len(got) != 0 {
		t.Errorf("found although it is off: %v", got)
	}
	d.set(condition.GPUHot, "rack=7", to(80.0), false) // as many terms, but later
	d.until("n-1", hot(82), []string{condition.GPUHot})
	d.set(condition.GPUHot, "tier=lab,rack=7", to(120.0), false)
	d.restart()
	d.until("n-1", hot(99), nil)
	if err := d.Unset(t.Context(), condition.GPUHot, "tier=lab,rack=7", operator); err != nil {
		t.Fatal(err)
	}
	d.until("n-1", hot(99), []string{condition.GPUHot})
	rules := d.Rules()
	for _, r := range rules {
		if r.Rule == condition.GPUHot && (len(r.Settings) != 3 || r.Settings[0].Selector != "rack=7" || r.Settings[2].Selector != "") {
			t.Errorf("settings in this order: %+v", r.Settings)
		}
	}
	if set, unset := d.events("health.rule_set"), d.events("health.rule_unset"); len(set) != 4 || len(unset) != 1 || !set[0].Security ||
		set[0].Actor != operator.Name || set[0].Detail["limit"] != "120" || unset[0].Detail["selector"] != "tier=lab,rack=7" {
		t.Errorf("events %+v, %+v", set, unset)
	}
}

// TestSetRefuses names what is wrong, and what to do.
func TestSetRefuses(t *testing.T) {
	d := newWorld(t)
	for _, c := range []struct {
		set  records.Setting
		code string
	}{
		{records.Setting{Rule: "gpu_sad", Off: true}, wire.CodeNotFound},
		{records.Setting{Rule: condition.GPUHot, Selector: ",", Off: true}, wire.CodeBadSelector},
		{records.Setting{Rule: condition.GPUHot, Selector: "status=online", Off: true}, wire.CodeBadSelector},
		{records.Setting{Rule: condition.GPUHot, Selector: "state!=active", Off: true}, wire.CodeBadSelector},
		{records.Setting{Rule: condition.GPUHot}, wire.CodeBadRequest},
		{records.Setting{Rule: condition.GPUIdle, For: time.Hour}, wire.CodeBadRequest},
		{records.Setting{Rule: condition.GPUIdle, Limit: to(0.0)}, wire.CodeBadRequest},
		{records.Setting{Rule: condition.GPUHot, For: -time.Hour}, wire.CodeBadRequest},
		{records.Setting{Rule: condition.GPUHot, For: 169 * time.Hour}, wire.CodeBadRequest},
		{records.Setting{Rule: condition.ProbeHung, For: time.Hour}, wire.CodeBadRequest},
		{records.Setting{Rule: condition.RemapFailed, Limit: to(1.0)}, wire.CodeBadRequest},
		{records.Setting{Rule: condition.GPUHot, Limit: to(5.0)}, wire.CodeBadRequest},
		{records.Setting{Rule: condition.GPUHot, Limit: to(151.0)}, wire.CodeBadRequest},
		{records.Setting{Rule: condition.GPUHot, Limit: to(math.NaN())}, wire.CodeBadRequest},
	} {
		_, err := d.Set(t.Context(), c.set, operator)
		wantCode(t, fmt.Sprintf("set %+v", c.set), err, c.code)
	}
	d.set(condition.GPUIdle, "", to(1.0), false) // a rule for what is below needs no room under its limit
	wantCode(t, "unset", d.Unset(t.Context(), condition.GPUHot, "", operator), wire.CodeNotFound)
	wantCode(t, "unset of no rule", d.Unset(t.Context(), "gpu_sad", "", operator), wire.CodeNotFound)
	if err := d.Unset(t.Context(), condition.GPUIdle, "", operator); err != nil {
		t.Error(err)
	}
	for i := range records.MostSettings {
		d.set(condition.GPUHot, fmt.Sprintf("n=%d", i), nil, true)
	}
	_, err := d.Set(t.Context(), records.Setting{Rule: condition.GPUHot, Off: true}, operator)
	wantCode(t, "one too many", err, wire.CodeBadRequest)
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Set(t.Context(), records.Setting{Rule: condition.GPUHot, Off: true}, operator); err == nil ||
		d.Unset(t.Context(), condition.GPUHot, "n=1", operator) == nil {
		t.Error("no error from a closed store")
	}
}

func wantCode(t *testing.T, what string, err error, code string) {
	t.Helper()
	var refused *wire.ErrorDetail
	if !errors.As(err, &refused) || refused.Code != code || refused.Hint == "" {
		t.Errorf("%s: got %v, want %s with a hint", what, err, code)
	}
}
