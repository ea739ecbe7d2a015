package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"muster/agent/wire"
	"muster/gateway/internal/client"
)

// pageSize is how many nodes are fetched at a time.
const pageSize = 500

// eachPage calls use with every page of the nodes that the filter picks.
func eachPage(ctx context.Context, c *client.Client, f client.NodeFilter, use func(client.NodeRows) error) error {
	f.Limit = pageSize
	for {
		rows, err := c.Nodes(ctx, f)
		if err != nil {
			return err
		}
		if err := use(rows); err != nil || rows.Next == "" {
			return err
		}
		f.Cursor = rows.Next
	}
}

func (s *session) filter() (client.NodeFilter, error) {
	all, err := s.options.flag("all")
	if err != nil {
		return client.NodeFilter{}, err
	}
	wanted, err := s.wanted()
	return client.NodeFilter{Selector: s.options.text("selector"), Status: wanted.status, State: wanted.state, All: all}, err
}

func (s *session) format() (string, error) {
	return s.options.oneOf("output", "table", "table", "wide", "json")
}

// begin is how commands that print rows start: the form first, which needs no gateway to be wrong.
func (s *session) begin(ctx context.Context) (c *client.Client, format string, err error) {
	if format, err = s.format(); err != nil {
		return nil, "", err
	}
	c, err = s.client(ctx)
	return c, format, err
}

func nodeList(ctx context.Context, s *session) error {
	filter, err := s.filter()
	if err != nil {
		return err
	}
	c, format, err := s.begin(ctx)
	if err != nil {
		return err
	}
	if format == "json" {
		return nodeListJSON(ctx, s.Stdout, c, filter)
	}
	counts, err := s.nodeTable(ctx, c, filter, format)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.Stdout, counts.footer())
	if screen := s.screen(); screen > 0 && format == "table" {
		counts.explain(s.Stdout, screen)
	}
	if counts.all == 0 && filter == (client.NodeFilter{}) {
		fmt.Fprintln(s.Stderr, "muster token create prints the command that joins a machine; --all shows retired nodes too")
	}
	return nil
}

func (s *session) nodeTable(ctx context.Context, c *client.Client, filter client.NodeFilter, format string) (tally, error) {
	var counts tally
	l := s.list(format, nodeColumns())
	err := eachPage(ctx, c, filter, func(page client.NodeRows) error {
		lines := make([][]string, 0, len(page.Nodes))
		for _, raw := range page.Nodes {
			v, err := readNode(raw, s.now())
			if err != nil {
				return err
			}
			counts.add(v)
			v.narrow = l.limit > 0 && l.limit < roomy
			lines = append(lines, v.row(format == "wide"))
		}
		return l.write(lines)
	})
	return counts, err
}

// tally counts nodes by status, as the list shows it.
type tally struct {
	all, online, stale, pending, retired int
	unwell, old                          int // rows that bear a mark
}

func (t *tally) add(v view) {
	t.all++
	if v.unwell() {
		t.unwell++
	}
	if v.old() {
		t.old++
	}
	switch {
	case v.State == wire.StateRetired:
		t.retired++
	case v.Status == wire.StatusOnline:
		t.online++
	case v.Status == wire.StatusStale:
		t.stale++
	case v.Status == wire.StatusPending:
		t.pending++
	}
}

func (t tally) footer() string {
	text := fmt.Sprintf("%s: %d online, %d stale", plural(t.all, "node"), t.online, t.stale)
	if t.pending > 0 {
		text += fmt.Sprintf(", %d pending", t.pending)
	}
	if t.retired > 0 {
		text += fmt.Sprintf(", %d retired", t.retired)
	}
	return text
}

// explain says what the marks mean that stand in the list, to a person who has them on the screen.
func (t tally) explain(w io.Writer, screen int) {
	if t.unwell > 0 {
		details(w, screen, [][]string{{markUnwell, "GPUs are ill or missing, or the probe fails: muster node show NAME"}})
	}
	if t.old > 0 {
		details(w, screen, [][]string{{markOld, "an old reading: the values are of then"}})
	}
}

// nodeListJSON writes the API's object with the pages merged, as they come.
func nodeListJSON(ctx context.Context, w io.Writer, c *client.Client, filter client.NodeFilter) error {
	written, total := 0, 0
	err := eachPage(ctx, c, filter, func(page client.NodeRows) error {
		for _, raw := range page.Nodes {
			before := ",\n"
			if written == 0 {
				before = "{\"nodes\":[\n"
			}
			written++
			if _, err := fmt.Fprintf(w, "%s%s", before, printableJSON(raw)); err != nil {
				return err
			}
		}
		total = page.Total
		return nil
	})
	if err != nil {
		return err
	}
	if written == 0 {
		_, err = fmt.Fprintf(w, "{\"nodes\":[],\"next\":\"\",\"total\":%d}\n", total)
		return err
	}
	_, err = fmt.Fprintf(w, "\n],\"next\":\"\",\"total\":%d}\n", total)
	return err
}

func (s *session) writeJSON(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = s.Stdout.Write(append(printableJSON(raw), '\n'))
	return err
}

func nodeShow(ctx context.Context, s *session) error {
	c, format, err := s.begin(ctx)
	if err != nil {
		return err
	}
	nodes, _, err := s.targets(ctx, c, s.args)
	if err != nil {
		return err
	}
	failed := false
	for i, node := range nodes {
		raw, err := c.Node(ctx, node.id)
		if err != nil {
			failed = s.trouble(ctx, node.name, err)
			continue
		}
		if format == "json" {
			fmt.Fprintf(s.Stdout, "%s\n", printableJSON(raw))
			continue
		}
		v, err := readNode(raw, s.now())
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(s.Stdout)
		}
		v.show(s.Stdout, s.screen(), v.identityRows(raw))
	}
	if failed {
		return errReported
	}
	return nil
}
