package fleet

import (
	"context"
	"fmt"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

func historyCommand() cli.Command {
	return cli.Command{
		Name: "gpu history", Args: "NODE", Least: 1, Most: 1, Flags: []string{"since", "limit", "output"}, Run: cli.With(history),
		Summary: "show who has worked on the GPUs of a node",
		Text: "Agents look at the processes on their GPUs every five minutes. Processes of one user and program in one container are one line. " +
			"A line goes on until they are not seen for 15 minutes. MEMORY is the most that was seen. ALLOCATION is what they worked for; where " +
			"that is not known, it is the allocation that had the GPU.\n\n" +
			"What the agent cannot see is -, as in a container that hides processes; and of GPUs of AMD nothing is known. As many lines of " +
			"a node are kept as 1000, and no longer than events (serve --events-retention).",
		Examples: []string{"muster gpu history gpu-1", "muster gpu history gpu-1 --since 7d -o json | jq -r '.uses[].user' | sort -u"}}
}

func history(ctx context.Context, s *cli.Session, o struct {
	Since time.Duration
	Limit int
}) error {
	f := api.GPUUseFilter{Limit: o.Limit}
	if o.Since > 0 {
		f.Since = s.Now().Add(-o.Since).Truncate(time.Second)
	}
	list, err := cli.Get[api.GPUUseList](ctx, s, api.At(api.PathGPUUses, s.Words[0]), f)
	switch {
	case err != nil:
		return err
	case s.Form == cli.FormJSON:
		return s.WriteJSON(list)
	}
	columns := []screen.Column{{Name: "GPU"}, {Name: "USER", Least: 6, Most: 20}, {Name: "PROGRAM", Least: 6, Most: 24},
		{Name: "CONTAINER", Rank: 2, Most: 20}, {Name: "FROM"}, {Name: "UNTIL"}, {Name: "MEMORY", Rank: 1}, {Name: "ALLOCATION", Rank: 3},
		{Name: "OWNER", Rank: 4, Least: 6, Most: 24}, {Name: "UUID", Wide: true}}
	if err := s.List(columns).Write(cli.Rows(list.Uses, func(u api.GPUUse) []string { return useRow(u, s.Now()) })); err != nil {
		return err
	}
	text := screen.Plural(len(list.Uses), "use")
	if len(list.Uses) < list.Total {
		text += fmt.Sprintf("; there are %d: --limit N shows more", list.Total)
	}
	fmt.Fprintln(s.Stdout, text)
	return nil
}

func useRow(u api.GPUUse, now time.Time) []string {
	until := "now"
	if !u.Now {
		until = screen.Ago(now, u.Until)
	}
	return []string{screen.Number(u.Index), u.User, u.Program, u.Container, screen.Ago(now, u.From), until, memory(u.MemoryMiB), u.Allocation,
		u.Owner, u.GPU}
}
