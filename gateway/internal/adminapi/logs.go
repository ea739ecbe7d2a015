package adminapi

import (
	"context"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/logs"
	"muster/gateway/internal/view/livestream"
)

// nodeLogs sends lines of a node's logs, as one JSON object a line. With follow it goes on until the reader leaves, may not read any more,
// or the log ends.
func (s *server) nodeLogs(c *call) (any, error) {
	q, err := c.logsQuery(s.now())
	if err != nil {
		return nil, err
	}
	d, err := s.Fleet.Detail(c.r.Context(), c.caller.Tenant, c.r.PathValue("node"))
	if err != nil {
		return nil, err
	}
	e := c.event("logs.read")
	e.NodeID = d.Node.ID
	e.NodeName = d.Node.Name
	e.Tenant = d.Node.Tenant
	e.Detail = map[string]string{"source": strings.Join(q.Sources, ",")}
	if err := s.Store.AddEvents(c.r.Context(), e); err != nil {
		return nil, err
	}
	ctx, leave := context.WithCancelCause(c.r.Context())
	defer leave(nil)
	go func() { // a log that is not followed may be long too, and a node decides how long
		leave(livestream.Guard(ctx, s.Tail, func() error {
			_, err := s.Gate.Admit(c.r, c.route.Need)
			return err
		}))
	}()
	out := &logs.Answer{To: httpserver.Patient(c.w), Type: api.LogsType, Now: s.now}
	return streamed{}, out.End(s.Logs.Read(ctx, c.caller.Account.ID, d.Node.ID, q, out.Lines))
}

func (c *call) logsQuery(now time.Time) (q logs.Query, err error) {
	p, err := c.query("source", "since", "follow", "grep", "limit")
	if err != nil {
		return q, err
	}
	q.Sources = strings.Split(p.text("source"), ",")
	if !p.has("source") {
		q.Sources = []string{wire.LogAgent}
	}
	if q.Since, err = p.time("since", now); err != nil {
		return q, err
	}
	if q.Follow, err = p.flag("follow"); err != nil {
		return q, err
	}
	if q.Grep, err = logs.CompileGrep(p.text("grep")); err != nil {
		return q, err
	}
	limit, err := p.number("limit", 1, logs.MaxLines)
	q.Limit = int(limit)
	return q, err
}
