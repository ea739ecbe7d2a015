package run

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/client"
	"muster/gateway/internal/paste"
)

// placed is a run with its node.
type placed struct {
	Node   string `json:"node"`
	Status string `json:"node_status"` // a run is as the node said last
	wire.Run

	id     string    // of the node
	queued *api.Task // that is to start it; nil: its node has it
}

// runsOf are the runs of a node, as it said last.
func runsOf(n api.Node) []wire.Run {
	var h wire.Hardware
	_ = json.Unmarshal(n.Hardware, &h) // a reading that this version does not understand has none
	return h.Runs
}

// runs are those of the nodes that were named, of those that --selector picks, or of all.
func runs(ctx context.Context, s *cli.Session, names []string) (all []placed, err error) {
	nodes, err := s.Nodes(ctx, names)
	if client.IsNotFound(err) && s.Name == "run ls" && len(nodes) < len(names) {
		message, _ := s.Explain(ctx, err)
		name := names[len(nodes)]
		return nil, cli.Hinted(message, "if "+name+" is a program: muster run show "+name+"; muster node ls --all shows the nodes")
	}
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		for _, r := range runsOf(n) {
			all = append(all, placed{Node: n.Name, Status: n.Status, Run: r, id: n.ID})
		}
	}
	waiting, err := queued(ctx, s, nodes, all)
	return append(all, waiting...), err
}

func runList(ctx context.Context, s *cli.Session) error {
	all, err := runs(ctx, s, s.Words)
	if err != nil {
		return err
	}
	if s.Form == cli.FormJSON {
		return s.WriteJSON(struct {
			Runs []placed `json:"runs"`
		}{append([]placed{}, all...)})
	}
	columns := []screen.Column{{Name: "NAME", Least: 12, Most: 40}, {Name: "NODE", Least: 12, Most: 40}, {Name: "STATE"},
		{Name: "EXIT", Rank: 2}, {Name: "GPUS", Rank: 3}, {Name: "STARTED", Rank: 1}, {Name: "USER", Rank: 5, Most: 16},
		{Name: "PROGRAM", Rank: 4, Most: 30},
		{Name: "WHY", Rank: 6, Least: 12, Most: 60}, {Name: "TASK", Wide: true}}
	if err := s.List(columns).Write(cli.Rows(all, func(p placed) []string { return p.row(s.Now()) })); err != nil {
		return err
	}
	fmt.Fprintln(s.Stdout, screen.Plural(len(all), "program"))
	return nil
}

func runShow(ctx context.Context, s *cli.Session) error {
	if err := oneName(s); err != nil {
		return err
	}
	found, err := find(ctx, s)
	switch {
	case err != nil:
		return err
	case s.Form == cli.FormJSON:
		return s.WriteJSON(struct {
			Runs []placed `json:"runs"`
		}{found})
	}
	for i, p := range found {
		if i > 0 {
			fmt.Fprintln(s.Stdout)
		}
		r := p.row(s.Now())
		screen.Pairs(s.Stdout, s.Screen(), [][]string{{"name", r[0]}, {"node", r[1]}, {"state", r[2]}, {"exit code", r[3]}, {"GPUs", r[4]},
			{"started", screen.Stamp(p.StartedAt)}, {"ended", screen.Stamp(p.FinishedAt)}, {"user", r[6]}, {"program", r[7]}, {"why", r[8]},
			{"task", r[9]}})
	}
	return nil
}

func (p placed) row(now time.Time) []string {
	state := screen.OrUnknown(p.State)
	if p.State == wire.RunRunning && p.Status != wire.StatusOnline {
		state += "?" // nobody has heard from its node
	}
	return []string{p.Name, p.Node, state, screen.Number(p.ExitCode), gpusOf(p.GPUs), screen.Since(now, p.StartedAt), p.User,
		p.Program, p.Why, p.Task}
}

func gpusOf(gpus []string) string {
	switch {
	case len(gpus) == 0:
		return screen.Unknown
	case gpus[0] == wire.AllGPUs:
		return wire.AllGPUs
	}
	return fmt.Sprint(len(gpus))
}

// find finds the runs of a name, on a node where one is named. There is at least one, or an error.
func find(ctx context.Context, s *cli.Session) ([]placed, error) {
	found, all, err := look(ctx, s)
	if err != nil || len(found) > 0 {
		return found, err
	}
	if t, ok := gone(ctx, s); ok {
		return nil, cli.Hinted(goneText(t, s.Words[0]), "muster task show "+t.ID+" says more")
	}
	return nil, missing(s, all)
}

// look gives the runs of a name, and all that were looked at.
func look(ctx context.Context, s *cli.Session) (found, all []placed, err error) {
	name := s.Words[0]
	all, err = runs(ctx, s, s.Words[1:])
	if client.IsNotFound(err) && len(s.Words) > 1 {
		message, _ := s.Explain(ctx, err)
		return nil, nil, notNode(s, message+"; ")
	}
	return slices.DeleteFunc(slices.Clone(all), func(p placed) bool { return p.Name != name && p.Task != name }), all, err
}

// missing says that nothing is known of a program, and which ones there are.
func missing(s *cli.Session, all []placed) error {
	var names []string
	for _, p := range all {
		if !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	hint := "there is none at all: muster run NODE -- PROGRAM starts one"
	if len(names) > 0 {
		hint = "there are " + strings.Join(names[:min(len(names), 8)], ", ") + ": muster run ls shows all"
	}
	return cli.Hinted(fmt.Sprintf("no node has a program %q", s.Words[0]), hint)
}

// nodesOf are the nodes of runs, each once.
func nodesOf(found []placed) (nodes []cli.Target) {
	for _, p := range found {
		if node := (cli.Target{ID: p.id, Name: p.Node}); !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// several refuses a name that more than one node has.
func several(s *cli.Session, found []placed) error {
	var names []string
	for _, node := range nodesOf(found) {
		names = append(names, node.Name)
	}
	hint := "add the node: muster " + s.Name + " " + s.Words[0] + " " + names[0]
	if s.Name != "run logs" {
		hint += "; or all of them: muster " + s.Name + " " + s.Words[0] + " --all"
	}
	return cli.Usagef(hint, "%s is on %s: %s", found[0].Name,
		screen.Plural(len(names), "node"), strings.Join(names[:min(len(names), 8)], ", "))
}

// oneName refuses more than the name of one program and of one node.
func oneName(s *cli.Session) error {
	if len(s.Words) > 2 {
		return notNode(s, "")
	}
	return nil
}

// notNode says that what stands in the place of a node is none, and how each of the names is given.
func notNode(s *cli.Session, before string) error {
	hint := "write muster " + s.Name + " NAME [NODE], or for each program:"
	for _, name := range s.Words {
		hint += "\n  muster " + s.Name + " " + paste.Quote(name)
	}
	return cli.Usagef(hint, "%smuster %s takes one program at a time, and %q would be its node", before, s.Name, s.Words[1])
}

func runLogs(ctx context.Context, s *cli.Session, f struct {
	Follow bool
	Lines  int
}) error {
	if err := oneName(s); err != nil {
		return err
	}
	found, err := find(ctx, s)
	if err != nil {
		return err
	}
	if len(nodesOf(found)) > 1 {
		return several(s, found)
	}
	o := &order{Session: s, name: found[0].Name}
	if task := found[0].queued; task != nil {
		return o.awaitLogs(ctx, nodesOf(found)[0], *task, f.Follow, f.Lines)
	}
	r := reader{Session: s, node: cli.Target{ID: found[0].id, Name: found[0].Node}, name: found[0].Name, task: found[0].Task, lines: f.Lines,
		say: o.say}
	r.print = o.output(r.node)
	if !f.Follow || found[0].State != wire.RunRunning {
		return r.read(ctx, false)
	}
	run, err := r.toEnd(ctx)
	return o.told(ctx, r.node, run, err)
}

// told says how a program that was followed ended.
func (o *order) told(ctx context.Context, node cli.Target, run wire.Run, err error) error {
	if ctx.Err() != nil {
		return nil // a person ended it
	}
	if err == nil && run.State != "" {
		state := "is " + screen.Printable(run.State)
		if run.State == wire.RunExited {
			state = "has ended"
		}
		o.say(fmt.Sprintf("%s: %s %s%s", screen.Printable(node.Name), screen.Printable(run.Name), state, exitOf(run)))
	}
	return err
}

func exitOf(run wire.Run) string {
	text := ""
	if run.ExitCode != nil {
		text = fmt.Sprintf(", with exit code %d", *run.ExitCode)
	}
	if run.Why != "" {
		text += "; " + screen.Printable(run.Why)
	}
	return text
}
