package provider

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
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
			{Name: "STORAGE", Rank: 3}, {Name: "UNMEASURED", Rank: 2}}
		rows := cli.Rows(r.Rows, costRow)
		if len(rows) != 1 {
			total := r.Total
			total.Group = "all"
			rows = append(rows, costRow(total))
		}
		_ = s.List(columns).Write(rows)
		text := "From " + r.Since.UTC().Format(time.DateOnly) + " (whole days, UTC) to " + screen.Stamp(&r.Until)
		if r.Total.Estimate {
			text += "; ~ is an estimate, by price and time"
		}
		if r.Total.Unpriced > 0 {
			text += fmt.Sprintf("; %s without a price, which no sum has: muster node label NAME price_per_hour=1.99",
				screen.Plural(r.Total.Unpriced, "machine"))
		}
		fmt.Fprint(s.Stdout, s.PastedText(screen.Fold(text, s.Screen(), "  ")))
	})
}

func costRow(r providers.CostRow) []string {
	rented := screen.Money(r.Rented)
	if r.Estimate {
		rented = estimate(r.Rented)
	}
	cells := []string{r.Group, strconv.Itoa(r.Machines), fmt.Sprintf("%.1f", r.Hours), rented}
	for _, part := range addUp(r.Rented, r.Used, r.Idle, r.Silent, r.Storage, r.Unmeasured) {
		cells = append(cells, screen.Money(part))
	}
	return cells
}

// estimate is money by price and time; "-": it is not known.
func estimate(dollars *float64) string {
	if dollars == nil {
		return screen.Money(nil)
	}
	return "~" + screen.Money(dollars)
}

// addUp rounds the parts of a sum to cents, so that they add up to the sum as it is shown: the cents that are missing go to those that lose
// most. What is not known stays so.
func addUp(sum *float64, parts ...*float64) []*float64 {
	if sum == nil {
		return parts
	}
	cents, missing := make([]float64, len(parts)), math.Round(*sum*100)
	var order []int
	for i, p := range parts {
		if p != nil {
			cents[i] = math.Floor(*p*100 + 1e-6)
			missing -= cents[i]
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(*parts[b]*100-cents[b], *parts[a]*100-cents[a]) })
	rounded := make([]*float64, len(parts))
	for n, i := range order {
		if float64(n) < missing {
			cents[i]++
		}
		rounded[i] = new(cents[i] / 100)
	}
	return rounded
}
