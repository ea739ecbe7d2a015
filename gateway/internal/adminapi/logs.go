package adminapi

import (
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/logs"
)

// nodeLogs sends lines of a node's logs, as one JSON object a line. With follow it goes on until the reader leaves, may not read any more,
// or the log ends.
func (c *call) nodeLogs(f api.LogsQuery) (any, error) {
	q, err := logsQuery(f)
	if err != nil {
		return nil, err
	}
	d, err := c.Fleet.Detail(c.Context(), c.Caller.Tenant, c.Named("node"))
	if err != nil {
		return nil, err
	}
	e := c.event("logs.read")
	e.NodeID = d.Node.ID
	e.NodeName = d.Node.Name
	e.Tenant = d.Node.Tenant
	e.Detail = map[string]string{"source": strings.Join(q.Sources, ",")}
	if err := c.Store.AddEvents(c.Context(), e); err != nil {
		return nil, err
	}
	ctx, leave := c.admitted(nil) // a log that is not followed may be long too, and a node decides how long
	defer leave(nil)
	out := &logs.Answer{To: httpserver.Patient(c.W), Type: api.LogsType, Now: c.now}
	return streamed{}, out.End(c.Logs.Read(ctx, c.Caller.Account.ID, d.Node.ID, q, out.Lines))
}

func logsQuery(f api.LogsQuery) (q logs.Query, err error) {
	q = logs.Query{Sources: f.Sources, Since: f.Since, Follow: f.Follow, Limit: f.Limit}
	if len(q.Sources) == 0 {
		q.Sources = []string{wire.LogAgent}
	}
	q.Grep, err = logs.CompileGrep(f.Grep)
	return q, err
}
