package logs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

func create(ctx context.Context, s *cli.Session) error {
	q, err := request(s)
	if err != nil {
		return err
	}
	name, err := nameOf(s.Words, q)
	if err != nil {
		return err
	}
	return cli.Show(ctx, s, http.MethodPut, api.At(api.PathShipping, name), q, func(made api.LogShipping) {
		name = screen.Printable(made.Name)
		s.Printf("%s: %s to %s, from %s now. Try it: muster logs ship test %s\n", name, strings.Join(made.Sources, ", "), made.To,
			screen.Plural(made.Nodes, "node"), name)
	})
}

// nameOf is the name of a rule. If none is given, it comes from what makes two rules two, so the same command changes the same rule.
func nameOf(words []string, q api.LogShippingRequest) (string, error) {
	if len(words) > 0 {
		return words[0], nil
	}
	to, err := url.Parse(q.To)
	if err != nil || to.Host == "" {
		return "", cli.Usagef("--to https://loki.example", "--to is no URL")
	}
	parts := slices.DeleteFunc([]string{to.Host, q.Tenant, q.Selector}, func(part string) bool { return part == "" })
	name := strings.Trim(strings.Map(inName, strings.Join(parts, "-")), "-._")
	if wire.CheckName(name) != nil {
		return "", cli.Usagef("muster logs ship create NAME --to ...", "host and selector make no name for the rule")
	}
	return name, nil
}

func inName(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_':
		return r
	}
	return '-'
}

// request reads the flags and the files that they name.
func request(s *cli.Session) (api.LogShippingRequest, error) {
	var q api.LogShippingRequest
	var o struct {
		AuthFile, BearerFile, Rate string
		SinkCA                     string `flag:"sink-ca"`
	}
	if err := errors.Join(s.Flags.Into(&q), s.Flags.Into(&o)); err != nil {
		return q, err
	}
	switch {
	case q.To == "":
		return q, cli.Usagef("--to https://loki.example", "where do the logs go?")
	case len(q.Sources) == 0:
		return q, cli.Usagef("--source agent,kernel", "which logs are shipped?")
	}
	for _, from := range []struct {
		flag, file string
		to         *string
		read       func(string) ([]byte, error)
	}{{"auth-file", o.AuthFile, &q.Basic, s.ReadSecret}, {"bearer-file", o.BearerFile, &q.Bearer, s.ReadSecret},
		{"sink-ca", o.SinkCA, &q.CA, s.ReadFile}} {
		if from.file == "" {
			continue
		}
		raw, err := from.read(from.file)
		if err != nil {
			return q, fmt.Errorf("read --%s: %w", from.flag, err)
		}
		*from.to = strings.TrimSpace(string(raw))
	}
	var err error
	q.BytesPerSecond, err = rate(o.Rate)
	return q, err
}

// rate reads a size such as 256KiB; 0: none is given.
func rate(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	digits := strings.TrimRight(text, "KMiB")
	shift, known := map[string]int{"": 0, "KiB": 10, "MiB": 20}[text[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || !known || n == 0 || n > 1<<31-1>>shift {
		return 0, cli.Usagef("--rate 256KiB", "%q is no rate", text)
	}
	return int(n << shift), nil
}

func list(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "NAME", Least: 8}, {Name: "NODES"}, {Name: "SOURCES", Least: 8}, {Name: "STATE"}, {Name: "LAG"},
		{Name: "SENT"}, {Name: "DROPPED"}, {Name: "WAITING", Rank: 1}, {Name: "ERROR", Least: 12}, {Name: "TO", Wide: true},
		{Name: "SELECTOR", Wide: true}, {Name: "TENANT", Wide: true}, {Name: "BY", Wide: true}}
	return cli.ShowList(ctx, s, api.PathShippings, &api.ListFilter{}, columns,
		func(l api.LogShippingList) [][]string { return cli.Rows(l.Shippings, row) })
}

func row(r api.LogShipping) []string {
	return []string{r.Name, strconv.Itoa(r.Nodes), strings.Join(r.Sources, ","), state(r), screen.Age(lag(r)), strconv.FormatInt(r.Sent, 10),
		strconv.FormatInt(dropped(r), 10), strconv.FormatInt(r.Waiting, 10), trouble(r), r.To, r.Selector, r.Tenant, r.CreatedBy}
}

func lag(r api.LogShipping) time.Duration {
	return time.Duration(r.LagSeconds * float64(time.Second))
}

func dropped(r api.LogShipping) (all int64) {
	for _, n := range r.Dropped {
		all += n
	}
	return all
}

// state is a word for how a rule does.
func state(r api.LogShipping) string {
	switch {
	case r.FailingSince != nil:
		return "failing"
	case r.Withheld > 0:
		return "withheld"
	case r.SentAt == nil:
		return "new"
	}
	return "ok"
}

// trouble is why the sink does not take the lines, or else why nodes do not ship them.
func trouble(r api.LogShipping) string {
	if r.FailingSince != nil || r.Withheld == 0 {
		return r.Error
	}
	return screen.Plural(r.Withheld, "node") + ": " + r.WithheldWhy
}

func show(ctx context.Context, s *cli.Session) error {
	all, err := cli.Get[api.LogShippingList](ctx, s, api.PathShippings, nil)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all.Shippings, func(r api.LogShipping) bool { return r.Name == s.Words[0] })
	if at < 0 {
		return cli.Hinted(fmt.Sprintf("there is no rule %q", s.Words[0]), "muster logs ship ls shows them")
	}
	r := all.Shippings[at]
	if s.Form == cli.FormJSON {
		return s.WriteJSON(r)
	}
	screen.Pairs(s.Stdout, s.Screen(), pairs(r))
	return nil
}

func pairs(r api.LogShipping) [][]string {
	rows := [][]string{{"rule", r.Name}, {"state", state(r)}, {"to", r.To},
		{"secret", r.Auth},
		{"tenant-id", r.TenantID}, {"tenant", r.Tenant}, {"selector", r.Selector},
		{"sources", strings.Join(r.Sources, ", ")}, {"nodes", strconv.Itoa(r.Nodes)},
		{"rate", fmt.Sprintf("%d bytes a second of each node", r.BytesPerSecond)},
		{"sent", fmt.Sprintf("%d lines, %d bytes", r.Sent, r.SentBytes)},
		{"last sent", screen.Stamp(r.SentAt)}, {"waiting", fmt.Sprintf("%d lines, the oldest for %s", r.Waiting, screen.Age(lag(r)))},
		{"buffer", fmt.Sprintf("%d bytes", r.BufferBytes)}}
	for _, reason := range slices.Sorted(maps.Keys(r.Dropped)) {
		rows = append(rows, []string{"dropped", fmt.Sprintf("%d lines: %s", r.Dropped[reason], why(reason))})
	}
	if r.FailingSince != nil {
		rows = append(rows, []string{"failing since", screen.Stamp(r.FailingSince)})
	}
	if r.Withheld > 0 {
		rows = append(rows, []string{"withheld", "by " + screen.Plural(r.Withheld, "node") + ": " + screen.OrUnknown(r.WithheldWhy)})
	}
	return append(rows, []string{"error", r.Error},
		[]string{"created", screen.Stamp(&r.CreatedAt) + " by " + screen.OrUnknown(r.CreatedBy)})
}

// why says in words for what reason lines were dropped.
func why(reason string) string {
	switch reason {
	case "buffer":
		return "the gateway's buffer was full"
	case "damaged":
		return "the gateway's buffer was damaged"
	case "refused":
		return "the sink does not want them"
	case "node":
		return "they were lost on their nodes"
	}
	return screen.OrUnknown(reason)
}

func test(ctx context.Context, s *cli.Session) error {
	return s.ShowTry(ctx, api.At(api.PathShippingTest, s.Words[0]), func(t api.AlertTest) string {
		return fmt.Sprintf("The sink of %s took the test line: status %d after %d ms.", screen.Printable(s.Words[0]), t.Status, t.TookMS)
	})
}

func drop(ctx context.Context, s *cli.Session) error {
	name := s.Words[0]
	return s.Drop(ctx, api.At(api.PathShipping, name), nil, "delete the rule "+name, name+" ships no more.")
}
