package provider

import (
	"cmp"
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

// costFlags are those of cost.
type costFlags struct {
	Since                time.Duration
	By, Selector, Tenant string
}

// cost adds up what machines have cost, and what of that was used.
func cost(ctx context.Context, s *cli.Session, o costFlags) error {
	f := providers.CostReportFilter{By: o.By, Selector: o.Selector, Tenant: o.Tenant}
	if o.Since > 0 {
		f.Since = s.Now().UTC().Add(-o.Since)
	}
	return cli.Show(ctx, s, http.MethodGet, api.PathCostReport, f, func(r providers.CostReport) {
		columns := []screen.Column{{Name: strings.ToUpper(screen.Printable(cmp.Or(r.By, "of"))), Least: 8}, {Name: "MACHINES"},
			{Name: "HOURS", Rank: 4}, {Name: "RENTED"}, {Name: "USED", Rank: 1}, {Name: "IDLE", Rank: 1}, {Name: "SILENT", Rank: 2},
			{Name: "STORAGE", Rank: 3}}
		rows := cli.Rows(r.Rows, costRow)
		if len(rows) != 1 {
			total := r.Total
			total.Group = "all"
			rows = append(rows, costRow(total))
		}
		_ = s.List(columns).Write(rows)
		text := "From " + screen.Stamp(&r.Since) + " to " + screen.Stamp(&r.Until)
		if r.Total.Estimate {
			text += "; ~ is an estimate, by price and time"
		}
		if r.Total.Unpriced > 0 {
			text += fmt.Sprintf("; %s without a price, which no sum has: muster node label NAME price_per_hour=1.99",
				screen.Plural(r.Total.Unpriced, "machine"))
		}
		s.Printf("%s\n", text)
	})
}

func costRow(r providers.CostRow) []string {
	rented := screen.Money(r.Rented)
	if r.Estimate && r.Rented != nil {
		rented = "~" + rented
	}
	return []string{screen.OrUnknown(r.Group), strconv.Itoa(r.Machines), fmt.Sprintf("%.1f", r.Hours), rented, screen.Money(r.Used),
		screen.Money(r.Idle), screen.Money(r.Silent), screen.Money(r.Storage)}
}
