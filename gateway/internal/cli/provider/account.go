package provider

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// lambda is the kind whose machines need the name of an ssh key.
const lambda = "lambda"

// addFlags are those of provider add.
type addFlags struct {
	KeyFile, Name, Tenant string
	SSHKey                string `flag:"ssh-key"`
}

// add reads the key from a file or a pipe: what stands in arguments every user of the machine can read. The last --url is the company's.
// The gateway is named by one before it, or as for every command without the flag.
func add(ctx context.Context, s *cli.Session, o addFlags) error {
	if o.KeyFile == "" {
		return cli.Usagef("--key-file FILE, or --key-file - with a pipe", "where does the API key of the account come from?")
	}
	raw, err := s.ReadSecret(o.KeyFile)
	if err != nil {
		return fmt.Errorf("read the API key: %w", err)
	}
	q := providers.Request{Kind: s.Words[0], Name: o.Name, Tenant: o.Tenant, URL: s.Flags.Take("url"), SSHKey: o.SSHKey,
		Key: strings.TrimSpace(string(raw))}
	if q.Key == "" || strings.ContainsAny(q.Key, " \t\r\n") {
		return cli.Usagef("the file holds the key alone, in one line", "%s holds no API key", o.KeyFile)
	}
	if err := s.AskTenant(ctx, q.Tenant); err != nil {
		return err
	}
	return cli.Show(ctx, s, http.MethodPost, api.PathProviders, q, func(p providers.Account) {
		if p.KeyReplaced {
			s.Printf("The key of %s is replaced.\n", p.Name)
			return
		}
		what := "its key works, and its machines show in a moment"
		if p.Instances != nil {
			what = seen(p)
		}
		s.Printf("%s is added: %s.\n", p.Name, what)
		if q.Kind == lambda && o.SSHKey == "" {
			s.Say("It has no --ssh-key, which Lambda Cloud wants for each new machine: " +
				"nothing can be rented from it. To rent, remove it, and add it again with --ssh-key NAME.")
		}
		s.Printf("muster provider plan shows what runs there and is not in the fleet, and what it costs.\n")
	})
}

// seen is what was seen of an account's machines.
func seen(p providers.Account) string {
	if p.Instances == nil {
		return "its machines were not seen yet"
	}
	text := screen.Plural(*p.Instances, "instance")
	if p.PerHour != nil {
		text += ", " + screen.Price(p.PerHour) + " an hour"
	}
	return text
}

func list(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "ACCOUNT", Least: 8, Most: 30}, {Name: "KIND"}, {Name: "TENANT", Rank: 2, Most: 24}, {Name: "INSTANCES"},
		{Name: "PRICE"}, {Name: "LIMIT", Rank: 1}, {Name: "SEEN"}, {Name: "STATE", Least: 8, Most: 60}, {Name: "URL", Most: 60, Wide: true},
		{Name: "ADDED", Wide: true}, {Name: "BY", Most: 40, Wide: true}}
	return cli.Show(ctx, s, http.MethodGet, api.PathProviders, api.ListFilter{Tenant: s.Flags.Text("tenant")}, func(l providers.List) {
		_ = s.List(columns).Write(cli.Rows(l.Providers, func(p providers.Account) []string { return row(p, s.Now()) }))
		if len(l.Providers) == 0 {
			s.Say("muster provider add KIND --key-file FILE adds an account; muster help providers")
		}
	})
}

func row(p providers.Account, now time.Time) []string {
	return []string{p.Name, p.Kind, p.Tenant, screen.Number(p.Instances), screen.Price(p.PerHour), screen.Price(p.Limit),
		screen.Since(now, p.SyncedAt),
		state(p, now), p.URL, screen.Ago(now, p.CreatedAt), p.CreatedBy}
}

// state says whether what is shown of an account is of now. What is not known is never shown as well.
func state(p providers.Account, now time.Time) string {
	switch {
	case p.FailedAt != nil:
		return screen.Printable("unknown since " + screen.Age(now.Sub(*p.FailedAt)) + ": " + p.Error)
	case p.Known:
		return "ok"
	case p.SyncedAt == nil:
		return "not seen yet"
	}
	return "unknown"
}

func show(ctx context.Context, s *cli.Session) error {
	return cli.ShowEach(ctx, s, api.PathProvider, func(p providers.Account) {
		now := s.Now()
		rows := [][]string{{"account", p.Name}, {"kind", p.Kind}, {"tenant", p.Tenant},
			{"url", p.URL}, {"added", screen.Stamp(&p.CreatedAt) + " by " + screen.OrUnknown(p.CreatedBy)},
			{"state", state(p, now)}, {"seen", screen.Stamp(p.SyncedAt)}, {"instances", screen.Number(p.Instances)},
			{"price", screen.Price(p.PerHour) + " an hour"}, {"limit", limitText(p.Limit)}}
		rows = append(rows, []string{"next", s.Pasted("provider instances " + p.Name)})
		screen.Pairs(s.Stdout, s.Screen(), rows)
	})
}

func limitText(perHour *float64) string {
	if perHour == nil {
		return "none"
	}
	return screen.Price(perHour) + " an hour"
}

func syncAll(ctx context.Context, s *cli.Session) error {
	return s.OnEach(ctx, cli.Named(s.Words), func(t cli.Target) (string, error) {
		p, err := cli.Send[providers.Account](ctx, s, http.MethodPost, api.At(api.PathProviderSync, t.ID), nil)
		switch {
		case err != nil:
			return "", err
		case s.Form == cli.FormJSON:
			return "", s.WriteJSON(p)
		case p.FailedAt != nil:
			return "", cli.Hinted(state(p, s.Now()), "what was seen last is kept: muster provider show "+p.Name)
		}
		return seen(p), nil
	})
}

// limit shows what is spent, or bounds it for an account or a tenant.
func limit(ctx context.Context, s *cli.Session) error {
	tenant := s.Flags.Text("tenant")
	words := s.Words
	if tenant == "" && len(words) == 0 {
		return spending(ctx, s)
	}
	path := api.At(api.PathTenantLimit, tenant)
	if tenant == "" {
		path = api.At(api.PathProviderLimit, words[0])
		words = words[1:]
	}
	const hint = "write muster provider limit ACCOUNT 20, or muster provider limit --tenant TENANT 20; none takes the limit away"
	if len(words) != 1 {
		return cli.Usagef(hint, "how much may its machines cost an hour?")
	}
	q := providers.SpendingLimit{}
	if words[0] != "none" {
		most, err := price(words[0])
		if err != nil {
			return cli.Usagef(hint, "%q is no price", words[0])
		}
		q.PerHour = &most
	}
	return cli.Show(ctx, s, http.MethodPut, path, q, func(l providers.Spending) {
		text := l.Of + ": limit " + limitText(l.PerHour) + ", now " + screen.Price(&l.Now)
		if l.PerHour != nil && l.Now > *l.PerHour {
			text += "; what runs goes on, and nothing more is rented or started"
		}
		s.Printf("%s\n", text)
	})
}

func spending(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "OF", Least: 8}, {Name: "LIMIT"}, {Name: "NOW"}, {Name: "LEFT"}}
	return cli.ShowList(ctx, s, api.PathSpending, nil, columns, func(l providers.SpendingList) [][]string {
		return cli.Rows(l.Spending, func(one providers.Spending) []string {
			if one.PerHour == nil {
				return []string{one.Of, "none", screen.Price(&one.Now), screen.Unknown}
			}
			left := max(*one.PerHour-one.Now, 0)
			return []string{one.Of, screen.Price(one.PerHour), screen.Price(&one.Now), screen.Price(&left)}
		})
	})
}

// price reads an amount that is not negative.
func price(text string) (float64, error) {
	const most = 1e6
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= most) {
		return 0, fmt.Errorf("%q is no price", text)
	}
	return n, nil
}
