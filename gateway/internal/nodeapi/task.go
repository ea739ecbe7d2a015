package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/task"
)

// pieceTime is how long a piece of a task's output may take to arrive: it can be a hundred times as long as a heartbeat.
const pieceTime = time.Minute

// taskRoutes are those over which a node gets work and reports on it. {task} is the task; its claimer alone may name it.
func (a *API) taskRoutes() []Route {
	if a.Tasks == nil {
		return nil
	}
	task := "{task}"
	return []Route{
		{Method: "GET", Path: wire.TaskWaitPath("{id}"), Proof: Identity, Node: a.taskWait},
		{Method: "POST", Path: wire.TaskStartedPath(task), Proof: Identity, MaxBody: wire.MaxBody, Node: a.taskStarted},
		{Method: "POST", Path: wire.TaskOutputPath(task), Proof: Identity, MaxBody: wire.MaxBody, BodyTime: pieceTime, Node: a.taskOutput},
		{Method: "POST", Path: wire.TaskResultPath(task), Proof: Identity, MaxBody: wire.MaxBody, BodyTime: pieceTime, Node: a.taskResult},
		{Method: "POST", Path: wire.TaskSecretsPath(task), Proof: Identity, MaxBody: wire.MaxBody, Node: a.taskSecrets},
	}
}

// taskWait answers nothing where no task came.
func (a *API) taskWait(ctx context.Context, c Call) (any, error) {
	if c.request.Method == http.MethodHead {
		return nil, wire.Refuse(wire.CodeMethodNotAllowed, "a task cannot be looked at, only fetched", "use GET")
	}
	q, err := readWait(c.request.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	takes := task.Takes{Tasks: q.tasks, Report: q.report}
	if q.sessions && a.Sessions != nil {
		takes.Aside = func() *wire.SignedTask { return a.Sessions.Aside(sessionClaimer(c)) }
	}
	signed, err := a.Tasks.Wait(ctx, claimer(c, ""), q.within, takes)
	switch {
	case errors.Is(err, task.ErrReport):
		return wire.ReportNow{Report: true}, nil
	case signed == nil || err != nil:
		return nil, err
	}
	return signed, nil
}

// waitQuery is what the query of a wait asks for.
type waitQuery struct {
	within                  time.Duration
	tasks, sessions, report bool
}

// readWait reads the query of a wait. Without one it is as long as a wait can be. Without wire.TaskWaitFor it takes tasks alone.
func readWait(query string) (waitQuery, error) {
	q := waitQuery{within: wire.MaxTaskWait, tasks: true}
	values, err := url.ParseQuery(query)
	if err != nil {
		return q, badWait()
	}
	for name, all := range values {
		switch {
		case len(all) == 1 && name == wire.TaskWaitSeconds:
			seconds, err := strconv.Atoi(all[0])
			if err != nil || seconds < 0 || seconds > int(wire.MaxTaskWait/time.Second) {
				return q, badWait()
			}
			q.within = time.Duration(seconds) * time.Second
		case len(all) == 1 && name == wire.TaskWaitFor: // a later agent may name more
			what := strings.Split(all[0], ",")
			q.tasks, q.sessions = slices.Contains(what, wire.WaitTasks), slices.Contains(what, wire.WaitSessions)
			q.report = slices.Contains(what, wire.WaitReport)
		default:
			return q, badWait()
		}
	}
	if !q.tasks && !q.sessions {
		return q, badWait()
	}
	return q, nil
}

func badWait() error {
	return wire.Refuse(wire.CodeBadRequest, "the query of a wait is not as it should be",
		wire.TaskWaitSeconds+"=0 to "+strconv.Itoa(int(wire.MaxTaskWait/time.Second))+", and "+wire.TaskWaitFor+"="+wire.WaitTasks+","+
			wire.WaitSessions)
}

func (a *API) taskStarted(ctx context.Context, c Call) (any, error) {
	var q wire.TaskStarted
	if err := readTask(c.Body, &q); err != nil {
		return nil, err
	}
	return some(a.Tasks.Started(ctx, claimer(c, ""), c.request.PathValue("task")))
}

func (a *API) taskOutput(ctx context.Context, c Call) (any, error) {
	var q wire.TaskOutput
	if err := readTask(c.Body, &q); err != nil {
		return nil, err
	}
	return some(a.Tasks.Output(ctx, claimer(c, ""), c.request.PathValue("task"), q))
}

func (a *API) taskResult(ctx context.Context, c Call) (any, error) {
	return struct{}{}, a.Tasks.Result(ctx, claimer(c, c.evidence()), c.request.PathValue("task"), c.Body)
}

func (a *API) taskSecrets(ctx context.Context, c Call) (any, error) {
	return some(a.Tasks.Secrets(ctx, claimer(c, ""), c.request.PathValue("task")))
}

// some makes an answer of a value.
func some[T any](answer T, err error) (any, error) { return answer, err }

func claimer(c Call, evidence string) task.Claimer {
	return task.Claimer{NodeID: c.Identity.NodeID, Enrolment: c.Identity.Enrolment, Fingerprint: c.Identity.Fingerprint,
		Generation: c.Identity.Generation, Proof: evidence, Address: c.Proof.Address}
}

// readTask reads what a node says about a task. A newer agent may say more.
func readTask(body []byte, into any) error {
	if err := sign.DecodeOnce(body, into); err != nil {
		return wire.Refuse(wire.CodeBadRequest, "the body cannot be read: "+err.Error(), "agent and gateway must be of the same protocol")
	}
	return nil
}

// evidence is what proves a request, for the record: its signature with all that it covers, or the certificate of its TLS connection.
func (c Call) evidence() string {
	if !c.signed {
		return "tls:" + c.Identity.Fingerprint
	}
	h := c.request.Header
	text, err := json.Marshal(map[string]string{
		"method": c.request.Method, "path": c.request.URL.EscapedPath(), "query": c.request.URL.RawQuery,
		"content-digest": h.Get("Content-Digest"), "signature-input": h.Get("Signature-Input"), "signature": h.Get("Signature"),
	})
	if err != nil {
		panic("nodeapi: " + err.Error()) // texts always encode
	}
	return string(text)
}

// waiting is how many tasks wait for a node.
func (a *API) waiting(nodeID string) int {
	if a.Tasks == nil {
		return 0
	}
	return a.Tasks.Waiting(nodeID)
}
