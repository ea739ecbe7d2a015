package health

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

func alertList(ctx context.Context, s *cli.Session, f api.AlertFilter) error {
	return cli.Show(ctx, s, http.MethodGet, api.PathAlerts, f, func(list api.AlertList) {
		columns := []screen.Column{{Name: "ALERT"}, {Name: "SEVERITY"}, {Name: "CAUSE"}, {Name: "SINCE", Rank: 1}, {Name: "STATE"},
			{Name: "WHAT", Below: true}, {Name: "TENANT", Wide: true}, {Name: "TOLD", Wide: true}, {Name: "NEXT", Wide: true}}
		rows := cli.Rows(list.Alerts, func(a api.Alert) []string {
			return []string{a.ID, a.Severity, a.Cause, screen.Age(s.Now().Sub(a.Since)), state(a), a.Text, a.Tenant, told(a), a.Next}
		})
		_ = s.List(columns).Write(rows) // the session remembers what Stdout refused
		if left := list.Total - len(list.Alerts); left > 0 {
			fmt.Fprintf(s.Stdout, "and %d more: select with -l or --cause\n", left)
		}
		if list.Total == 0 {
			none := "no alert fires"
			if f.Selector+f.Tenant+f.Cause != "" {
				none = "none of the alerts that were asked for fires"
			}
			fmt.Fprintln(s.Stderr, none+beside(ctx, s, f)+"; muster help conditions lists what is looked for")
		}
	})
}

// beside says which nodes are not well though no alert fires: an alert waits until what is wrong lasts. An account that may read alerts
// alone, and a gateway that still reads its nodes, say nothing of it.
func beside(ctx context.Context, s *cli.Session, f api.AlertFilter) string {
	view, err := cli.Get[api.FleetView](ctx, s, api.PathFleet, api.FleetFilter{Selector: f.Selector, Tenant: f.Tenant})
	if err != nil {
		return ""
	}
	var said []string
	if n := view.Totals.Statuses[wire.StatusStale]; n > 0 {
		said = append(said, screen.Plural(n, "stale node")+" (muster node ls)")
	}
	found := 0
	for _, n := range view.Totals.Findings {
		found += n
	}
	if found > 0 {
		said = append(said, screen.Plural(found, "node")+" with findings (muster health ls)")
	}
	if len(said) == 0 {
		return ""
	}
	return ", but look at " + strings.Join(said, " and ")
}

// state is a word for how an alert stands.
func state(a api.Alert) string {
	switch {
	case a.ResolvedAt != nil:
		return "resolved"
	case a.Silence != nil:
		return "silenced"
	}
	return "firing"
}

// told names the receivers that were told, and those that were not.
func told(a api.Alert) string {
	var all []string
	for _, v := range a.Deliveries {
		word := v.Told
		switch {
		case v.GivenUp:
			word = "given up"
		case v.Waiting && v.Tries > 0:
			word = "failing"
		case v.Waiting:
			word = "waiting"
		}
		all = append(all, v.Receiver+": "+word)
	}
	return screen.OrUnknown(strings.Join(all, ", "))
}

func alertShow(ctx context.Context, s *cli.Session) error {
	list, err := cli.Get[api.AlertList](ctx, s, api.PathAlerts, api.AlertFilter{ID: s.Words[0], All: true})
	if err != nil {
		return err
	}
	if len(list.Alerts) == 0 {
		return cli.Hinted(fmt.Sprintf("there is no alert %q", s.Words[0]), "muster alert ls --all shows them")
	}
	a := list.Alerts[0]
	if s.Form == cli.FormJSON {
		return s.WriteJSON(a)
	}
	screen.Pairs(s.Stdout, s.Screen(), pairs(a))
	return nil
}

func pairs(a api.Alert) [][]string {
	about := []string{"node", a.Node}
	if a.Node == "" && a.Subject != "" { // it is about something else, as a machine
		about = []string{"about", a.Subject}
	}
	rows := [][]string{{"alert", a.ID}, {"state", state(a)}, {"cause", a.Cause},
		{"severity", a.Severity}, {"tenant", a.Tenant}, about,
		{"what", a.Text}, {"next", a.Next}, {"help", "muster help " + screen.OrUnknown(a.Topic)},
		{"since", screen.Stamp(&a.Since)}, {"fired", screen.Stamp(&a.FiredAt)}, {"resolved", screen.Stamp(a.ResolvedAt)}}
	if len(a.NodeIDs) > 0 {
		rows = append(rows, []string{"nodes", screen.Plural(len(a.NodeIDs), "node")})
	}
	if q := a.Silence; q != nil {
		rows = append(rows, []string{"silenced", "until " + screen.Stamp(&q.EndsAt) + " by " + screen.OrUnknown(q.CreatedBy) + ": " +
			screen.OrUnknown(q.Reason)})
	}
	for _, v := range a.Deliveries {
		text := screen.OrUnknown(v.Told) + " at " + screen.Stamp(v.ToldAt)
		if v.Told == "" {
			text = "not told yet"
		}
		if v.GivenUp {
			text += ", given up"
		}
		if v.Error != "" {
			text += ", " + screen.Plural(v.Tries, "failure") + ": " + screen.Printable(v.Error)
		}
		rows = append(rows, []string{"to " + v.Receiver, text})
	}
	return rows
}

func silence(ctx context.Context, s *cli.Session, q api.AlertSilenceRequest) error {
	q.For = cmp.Or(q.For, api.Duration(2*time.Hour))
	if len(s.Words) > 0 {
		if err := ofAlert(ctx, s, &q); err != nil {
			return err
		}
	}
	if q.Reason == "" {
		return cli.Usagef("--reason 'new power supply'", "a silence needs a reason, for those who wonder later")
	}
	return cli.Show(ctx, s, http.MethodPost, api.PathSilences, q, func(made api.AlertSilence) {
		s.Printf("%s: %s, until %s.\n", made.ID, silenceOf(made), screen.Stamp(&made.EndsAt))
	})
}

// ofAlert fills in what an alert is about.
func ofAlert(ctx context.Context, s *cli.Session, q *api.AlertSilenceRequest) error {
	id := s.Words[0]
	list, err := cli.Get[api.AlertList](ctx, s, api.PathAlerts, api.AlertFilter{ID: id, All: true})
	switch {
	case err != nil:
		return err
	case len(list.Alerts) == 0 && strings.Contains(id, "_"): // as the names of causes, and of few nodes
		return cli.Usagef("write muster alert silence --cause "+id, "there is no alert %q", id)
	case len(list.Alerts) == 0:
		return cli.Usagef("write muster alert silence --node "+id+", or an alert of muster alert ls", "there is no alert %q", id)
	}
	a := list.Alerts[0]
	q.Cause = a.Cause
	q.Node = a.Node
	if a.Node == "" { // it is about several nodes, or about none
		q.Tenant = cmp.Or(q.Tenant, a.Tenant)
	}
	return nil
}

// what is silenced, in a few words.
func silenceOf(q api.AlertSilence) string {
	var all []string
	for _, part := range []struct{ name, value string }{{"node", q.Node}, {"selector", q.Selector}, {"cause", q.Cause},
		{"tenant", q.Tenant}} {
		if part.value != "" {
			all = append(all, part.name+" "+part.value)
		}
	}
	return screen.OrUnknown(strings.Join(all, ", "))
}

func silences(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "SILENCE"}, {Name: "OF", Least: 12}, {Name: "ENDS"}, {Name: "BY", Rank: 1, Least: 8},
		{Name: "REASON", Least: 16}}
	return cli.ShowList(ctx, s, api.PathSilences, &api.ListFilter{}, columns, func(l api.AlertSilenceList) [][]string {
		return cli.Rows(l.Silences, func(q api.AlertSilence) []string {
			return []string{q.ID, silenceOf(q), screen.When(s.Now(), q.EndsAt), q.CreatedBy, q.Reason}
		})
	})
}

func unsilence(ctx context.Context, s *cli.Session) error {
	return s.Drop(ctx, api.At(api.PathSilence, s.Words[0]), nil, "", s.Words[0]+" has ended.")
}

func receiverAdd(ctx context.Context, s *cli.Session, q api.AlertReceiverRequest) error {
	if err := readReceiver(s, &q); err != nil {
		return err
	}
	return cli.Show(ctx, s, http.MethodPut, api.At(api.PathReceiver, s.Words[0]), q, func(r api.AlertReceiver) {
		name := screen.Printable(r.Name)
		fmt.Fprintf(s.Stdout, "%s gets alerts at %s. Try it: %s\n", name, screen.OrUnknown(r.Host), s.Pasted("alert receiver test "+name))
		if r.Secret != "" {
			s.Printf("\nThis secret signs what it gets. It is shown this once:\n\n  %s\n\nmuster help alerts says how to check it.\n", r.Secret)
		}
	})
}

// readReceiver reads the URL from a file or a pipe: it is a secret.
func readReceiver(s *cli.Session, q *api.AlertReceiverRequest) error {
	if q.Kind == "" {
		return cli.Usagef("--kind webhook, slack, ntfy or alertmanager", "what kind of receiver is it?")
	}
	text, err := s.ReadGiven("URL", cli.FileOrPipe)
	if err != nil {
		return err
	}
	address, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	q.URL, q.Token = strings.TrimSpace(address), strings.TrimSpace(rest)
	if q.URL == "" && !q.Replace { // before anything is sent: a person may have given it as --url, where the API token goes
		return cli.Usagef("--file FILE or a pipe gives it; --replace keeps the one that a receiver has; --url is the gateway's own",
			"there is no URL of the receiver")
	}
	return nil
}

func receiverList(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "NAME", Least: 8}, {Name: "KIND"}, {Name: "HOST", Least: 12}, {Name: "GETS", Least: 8}, {Name: "SENT"},
		{Name: "WAITING", Rank: 1}, {Name: "ERROR", Least: 12}, {Name: "GIVEN-UP", Wide: true}, {Name: "BY", Wide: true}}
	return cli.ShowList(ctx, s, api.PathReceivers, nil, columns, func(l api.AlertReceiverList) [][]string {
		return cli.Rows(l.Receivers, func(r api.AlertReceiver) []string { return receiverRow(r, s.Now()) })
	})
}

func receiverRow(r api.AlertReceiver, now time.Time) []string {
	sent := "never"
	if r.SentAt != nil {
		sent = screen.Ago(now, *r.SentAt)
	}
	return []string{r.Name, r.Kind, r.Host, gets(r), sent, strconv.Itoa(r.Waiting), r.Error, strconv.Itoa(r.GivenUp), r.CreatedBy}
}

// gets says what a receiver is told of.
func gets(r api.AlertReceiver) string {
	var all []string
	if len(r.Causes) > 0 {
		all = append(all, strings.Join(r.Causes, ","))
	}
	if r.Severity != "" {
		all = append(all, "from "+r.Severity)
	}
	if r.Tenant != "" {
		all = append(all, "tenant "+r.Tenant)
	}
	if r.Selector != "" {
		all = append(all, r.Selector)
	}
	if len(all) == 0 {
		return "all"
	}
	return screen.Printable(strings.Join(all, "; "))
}

func receiverTest(ctx context.Context, s *cli.Session) error {
	return s.ShowTry(ctx, api.At(api.PathReceiverTest, s.Words[0]), func(t api.AlertTest) string {
		return fmt.Sprintf("%s took the test alert: status %d after %d ms.", screen.Printable(s.Words[0]), t.Status, t.TookMS)
	})
}

func receiverDrop(ctx context.Context, s *cli.Session) error {
	name := s.Words[0]
	return s.Drop(ctx, api.At(api.PathReceiver, name), nil, "remove the receiver "+name, name+" is told no more.")
}
