package console

import (
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/console/picture"
)

const linesOfNode = 200 // without a script

// nodeLogs are lines of a node's log, where somebody asked for them.
type nodeLogs struct {
	Source, Grep string
	Asked        bool
	Sources      []string
	Lines        []picture.LogRow
	Failure      *failure
}

// logs reads the last lines. A refusal stands where the lines would.
func (v *visit) logs(data *nodePage) nodeLogs {
	shown := nodeLogs{Source: v.Asked("source"), Grep: v.Whole("grep"), Sources: picture.LogSources()}
	shown.Asked = shown.Source != ""
	if !shown.Asked || !v.may.May(api.ScopeLogsRead) {
		return shown
	}
	q := api.LogsQuery{Sources: strings.Split(shown.Source, ","), Grep: shown.Grep, Limit: linesOfNode}
	err := v.api.NodeLogs(v.r.Context(), data.Node.ID, q, func(l wire.LogLine) error {
		shown.Lines = append(shown.Lines, picture.LogRowOf(l))
		return nil
	})
	if err != nil {
		_, shown.Failure = v.failure("logs", err)
	}
	return shown
}
