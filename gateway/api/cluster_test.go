package api_test

import (
	"strings"
	"testing"

	"muster/gateway/api"
)

// TestSuccessor: who takes the place of the active gateway, and why nobody does.
func TestSuccessor(t *testing.T) {
	active := api.MemberGateway{ID: "gw1"}
	stands := api.MemberGateway{ID: "gw2"}
	refuses := api.MemberGateway{ID: "gw3", Refuses: "its clock is off"}
	for _, c := range []struct {
		all              []api.MemberGateway
		named, want, why string
	}{
		{[]api.MemberGateway{active, refuses, stands}, "", "gw2", ""},
		{[]api.MemberGateway{active, refuses, stands}, "gw2", "gw2", ""},
		{[]api.MemberGateway{active, refuses, stands}, "gw3", "", "its clock is off"},
		{[]api.MemberGateway{active, refuses, stands}, "gw1", "", "is the active gateway already"},
		{[]api.MemberGateway{active, stands}, "gw9", "", "no gateway of the id"},
		{[]api.MemberGateway{active, refuses}, "", "", "no gateway that stands by would take over"},
		{[]api.MemberGateway{active}, "", "", "no gateway stands by"},
	} {
		id, why, next := api.GatewayList{Gateways: c.all}.Successor(c.named)
		if id != c.want || !strings.Contains(why, c.why) || (why == "") != (c.why == "") || (why == "") != (next == "") {
			t.Errorf("%q: got %q, %q, %q", c.named, id, why, next)
		}
	}
}
