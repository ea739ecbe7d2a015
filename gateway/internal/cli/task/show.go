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
	rows := [][]string{
		{"id", screen.Printable(t.ID)}, {"node", screen.OrUnknown(t.Node)}, {"node id", screen.OrUnknown(t.NodeID)},
		{"tenant", screen.OrUnknown(t.Tenant)}, {"type", screen.OrUnknown(t.Type)}, {"params", screen.Printable(string(t.Params))},
		{"status", statusOf(t)},
	}
	add := func(name, text string) {
		if text != "" && text != screen.Unknown {
			rows = append(rows, []string{name, text})
		}
	}
	add("waits for", screen.Printable(t.QueueReason))
	add("exit code", screen.Number(t.ExitCode))
	add("code", screen.Printable(t.Code))
	add("error", screen.Printable(t.Error))
	for _, name := range slices.Sorted(maps.Keys(t.Values)) {
		add(screen.Printable(name), screen.Printable(string(t.Values[name])))
	}
	rows = append(rows, []string{"made", fmt.Sprintf("%s by %s (%s)", screen.Stamp(&t.CreatedAt), screen.OrUnknown(t.CreatedBy),
		screen.Ago(s.Now(), t.CreatedAt))})
	add("good until", screen.Stamp(&t.ExpiresAt))
	add("claimed", screen.Stamp(t.ClaimedAt))
	add("begun", screen.Stamp(t.StartedAt))
	add("ended", screen.Stamp(t.FinishedAt))
	add("took", took(t, s.Now()))
	if t.CancelAskedAt != nil {
		add("cancel", screen.Stamp(t.CancelAskedAt)+" by "+screen.OrUnknown(t.CancelAskedBy))
	}
	add("repeats", screen.Printable(t.RetryOf))
	add("repeated as", screen.Printable(t.RetriedAs))
	add("signed with", screen.Printable(t.SigningKeyID))
	add("claimed by", screen.Printable(t.ClaimFingerprint))
	add("proof", screen.Printable(t.Proof))
	if t.Archive != nil {
		add("archive", fmt.Sprintf("%s, %s: %s", screen.Printable(t.Archive.Name), screen.Plural(int(t.Archive.Size), "byte"),
			s.Pasted("task download "+t.ID)))
	}
	screen.Pairs(s.Stdout, s.Screen(), rows)
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
