package adminapi_test

import (
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/adminapi"
)

// TestHandOver: a gateway hands over to one that would take over, and to nobody else.
func TestHandOver(t *testing.T) {
	h := newHouse(t)
	fine := api.MemberGateway{ID: "gw3", Role: api.RoleStandby}
	odd := api.MemberGateway{ID: "gw2", Role: api.RoleStandby, Refuses: "its clock is 5s from that of the active gateway"}
	for _, c := range []struct {
		standing []api.MemberGateway
		to       string
		status   int
		says     string
	}{
		{nil, "", 409, "no gateway stands by"},
		{[]api.MemberGateway{odd}, "", 409, "no gateway that stands by would take over"},
		{[]api.MemberGateway{odd, fine}, "gw2", 409, "the gateway gw2 would not take over: its clock is 5s"},
		{[]api.MemberGateway{odd, fine}, "gw9", 409, "no gateway of the id"},
		{[]api.MemberGateway{odd, fine}, "", 200, `"to":"gw3"`},
		{[]api.MemberGateway{fine}, "gw3", 200, `"from":"gw1","to":"gw3"`},
	} {
		handed := ""
		h.api.Cluster = adminapi.Cluster{
			List: func() []api.MemberGateway {
				return append([]api.MemberGateway{{ID: "gw1", Role: api.RoleActive}}, c.standing...)
			},
			HandOver: func(to string) { handed = to },
		}
		status, body := h.ask("POST", "gateways/hand-over", "", `{"to":"`+c.to+`"}`)
		if status != c.status || !strings.Contains(string(body), c.says) || (handed != "") != (status == 200) {
			t.Errorf("%+v: got %d %s, handed to %q", c, status, body, handed)
		}
		if status != 200 && code(body) != wire.CodeIllegalMove {
			t.Errorf("%+v: got %s", c, body)
		}
	}
}
