package console

import (
	"strings"

	"muster/gateway/api"
)

// Route is one row of the table of the console's paths.
type Route struct {
	Method string
	Path   string // in the syntax of http.ServeMux
	Open   bool   // no login is needed

	serve func(*visit) (page, error)
}

// Pattern returns the route's pattern for http.ServeMux.
func (r Route) Pattern() string { return r.Method + " " + r.Path }

// dataPath begins the paths of live data, for scripts.
const dataPath = api.PathConsole + "api/"

func (r Route) data() bool { return strings.HasPrefix(r.Path, dataPath) }

// Table returns every route of the console. GET changes nothing. The authorisation matrix in package main calls all of them without a
// session.
func Table() []Route {
	const ui = api.PathConsole
	return []Route{
		{"GET", "/{$}", false, (*visit).home},
		{"GET", ui + "{$}", false, (*visit).home},
		{"GET", ui + "assets/{file}", true, (*visit).asset},
		{"GET", api.PathLogin, true, (*visit).showLogin},
		{"POST", api.PathLogin, true, (*visit).logIn},
		{"POST", ui + "logout", false, (*visit).logOut},
		{"GET", ui + "account", false, (*visit).showAccount},
		{"POST", ui + "account/sessions/{session}/end", false, on((*visit).showAccount, "sessions", (*visit).endSession)},

		{"GET", ui + "fleet", false, (*visit).showFleet},
		{"POST", ui + "fleet/nodes", false, on((*visit).showFleet, "nodes", (*visit).changeNodes)},
		{"GET", ui + "nodes/{node}", false, (*visit).showNode},
		{"POST", ui + "nodes/{node}/{verb}", false, on((*visit).showNode, "act", (*visit).actOnNode)},
		{"GET", ui + "add", false, (*visit).showAdd},
		{"POST", ui + "add", false, on((*visit).showAdd, "add", (*visit).addNode)},
		{"POST", ui + "nodes/{node}/script", false, (*visit).downloadScript},

		{"GET", ui + "allocations", false, (*visit).showAllocations},
		{"GET", ui + "allocations/{allocation}", false, (*visit).showAllocation},
		{"POST", ui + "allocations/{allocation}/{verb}", false, (*visit).changeAllocation},
		{"GET", ui + "slots", false, (*visit).showSlots},
		{"POST", ui + "slots/decide", false, on((*visit).showSlots, "decide", (*visit).decideSlots)},
		{"GET", ui + "skus", false, (*visit).showSKUs},
		{"GET", ui + "skus/{sku}", false, (*visit).showSKU},

		{"GET", ui + "providers", false, (*visit).showProviders},
		{"GET", ui + "maas", false, (*visit).showMAAS},

		{"GET", ui + "tasks", false, (*visit).showTasks},
		{"GET", ui + "tasks/new", false, (*visit).showNewTask},
		{"POST", ui + "tasks", false, on((*visit).showNewTask, "run", (*visit).runTask)},
		{"GET", ui + "tasks/{task}", false, (*visit).showTask},
		{"POST", ui + "tasks/{task}/cancel", false, on((*visit).showTask, "cancel", (*visit).cancelTask)},
		{"GET", ui + "tasks/{task}/archive", false, passed("tasks/{task}/archive")},

		{"GET", ui + "sessions", false, (*visit).showSessions},
		{"GET", ui + "sessions/{session}", false, (*visit).showSession},
		{"POST", ui + "sessions/{session}/end", false, on((*visit).showSession, "end", (*visit).killSession)},
		{"GET", ui + "sessions/{session}/recording", false, (*visit).showRecording},
		{"GET", ui + "sessions/{session}/cast", false, passed("sessions/{session}/recording")},

		{"GET", ui + "releases", false, (*visit).showReleases},
		{"GET", ui + "channels/{channel}", false, (*visit).showChannel},
		{"POST", ui + "channels/{channel}/{verb}", false, on((*visit).channelOrList, "steer", (*visit).steerChannel)},

		{"GET", ui + "alerts", false, (*visit).showAlerts},
		{"POST", ui + "alerts/silences", false, on((*visit).showAlerts, "silence", (*visit).silenceAlerts)},
		{"POST", ui + "alerts/silences/{silence}/end", false, on((*visit).showAlerts, "silences", (*visit).endSilence)},
		{"POST", ui + "alerts/receivers", false, on((*visit).showAlerts, "add", (*visit).addReceiver)},
		{"POST", ui + "alerts/receivers/{receiver}/test", false, on((*visit).showAlerts, "receivers", (*visit).testReceiver)},
		{"POST", ui + "alerts/receivers/{receiver}/remove", false, on((*visit).showAlerts, "receivers", (*visit).dropReceiver)},

		{"GET", ui + "tokens", false, (*visit).showTokens},
		{"POST", ui + "tokens", false, on((*visit).showTokens, "mint", (*visit).mintToken)},
		{"POST", ui + "tokens/{token}/revoke", false, on((*visit).showTokens, "list", (*visit).revokeToken)},

		{"GET", ui + "accounts", false, (*visit).showAccounts},
		{"POST", ui + "accounts", false, on((*visit).showAccounts, "make", (*visit).makeAccount)},
		{"POST", ui + "accounts/{account}/revoke", false, on((*visit).showAccounts, "list", (*visit).revokeAccount)},

		{"GET", ui + "events", false, (*visit).showEvents},
		{"GET", ui + "help", false, (*visit).showTopics},
		{"GET", ui + "help/{topic}", false, (*visit).showTopic},

		{"GET", dataPath + "fleet", false, passed("fleet")},
		{"GET", dataPath + "stream", false, passed("stream")},
		{"GET", dataPath + "nodes/{node}", false, passed("nodes/{node}")},
		{"GET", dataPath + "nodes/{node}/series", false, passed("nodes/{node}/series")},
		{"GET", dataPath + "nodes/{node}/logs", false, passed("nodes/{node}/logs")},
		{"GET", dataPath + "events", false, passed("events")},
		{"GET", dataPath + "tasks/{task}", false, passed("tasks/{task}")},
		{"GET", dataPath + "tasks/{task}/output", false, passed("tasks/{task}/output")},
	}
}
