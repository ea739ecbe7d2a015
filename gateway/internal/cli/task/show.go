package task

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

func taskShow(ctx context.Context, s *cli.Session) error {
	return cli.ShowEach(ctx, s, api.PathTask, func(one api.Task) { showTask(s, one) })
}

// showTask prints one task. What is not known is left out, the output comes last.
func showTask(s *cli.Session, t api.Task) {
	always := [][]string{{"id", t.ID}, {"node", t.Node}, {"node id", t.NodeID}, {"tenant", t.Tenant}, {"type", t.Type},
		{"params", string(t.Params)}, {"status", statusOf(t)}}
	known := [][]string{{"waits for", t.QueueReason}, {"exit code", screen.Number(t.ExitCode)}, {"code", t.Code}, {"error", t.Error}}
	for _, name := range slices.Sorted(maps.Keys(t.Values)) {
		known = append(known, []string{name, string(t.Values[name])})
	}
	cancel, archive := "", ""
	if t.CancelAskedAt != nil {
		cancel = screen.Stamp(t.CancelAskedAt) + " by " + screen.OrUnknown(t.CancelAskedBy)
	}
	if t.Archive != nil {
		archive = fmt.Sprintf("%s, %s: %s", t.Archive.Name, screen.Plural(int(t.Archive.Size), "byte"), s.Pasted("task download "+t.ID))
	}
	known = append(known, [][]string{
		{"made", screen.Stamp(&t.CreatedAt) + " by " + screen.OrUnknown(t.CreatedBy) + " (" + screen.Ago(s.Now(), t.CreatedAt) + ")"},
		{"good until", screen.Stamp(&t.ExpiresAt)}, {"claimed", screen.Stamp(t.ClaimedAt)}, {"begun", screen.Stamp(t.StartedAt)},
		{"ended", screen.Stamp(t.FinishedAt)}, {"took", took(t, s.Now())}, {"cancel", cancel}, {"repeats", t.RetryOf},
		{"repeated as", t.RetriedAs}, {"signed with", t.SigningKeyID}, {"claimed by", t.ClaimFingerprint}, {"proof", t.Proof},
		{"archive", archive}}...)
	screen.Pairs(s.Stdout, s.Screen(), append(always, screen.Known(known)...))
	showOutput(s, t)
}

// showOutput prints the head and the tail of what a task has written.
func showOutput(s *cli.Session, t api.Task) {
	if t.Output.Bytes == 0 {
		return
	}
	fmt.Fprintf(s.Stdout, "output, %s:\n", screen.Plural(int(t.Output.Bytes), "byte"))
	show := func(text string) {
		for line := range strings.Lines(text) {
			fmt.Fprintln(s.Stdout, "  "+screen.Printable(strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")))
		}
	}
	show(t.Output.Head)
	if t.Output.Truncated {
		fmt.Fprintln(s.Stdout, "  [what was written here is not kept]")
	}
	show(t.Output.Tail)
}

func taskCancel(ctx context.Context, s *cli.Session) error {
	return s.OnEach(ctx, cli.Named(s.Words), func(t cli.Target) (string, error) {
		task, err := cli.Send[api.Task](ctx, s, "POST", api.At(api.PathTaskCancel, t.ID), nil)
		return statusOf(task), err
	})
}

func taskRetry(ctx context.Context, s *cli.Session) error {
	return s.OnEach(ctx, cli.Named(s.Words), func(t cli.Target) (string, error) {
		task, err := cli.Send[api.Task](ctx, s, "POST", api.At(api.PathTaskRetry, t.ID), nil)
		return "given again: " + queued(task), err
	})
}
