package placement

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

func skuList(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "SKU", Least: 12}, {Name: "SHAPE", Rank: 4}, {Name: "MODEL", Rank: 5, Least: 8},
		{Name: "GPUS", Rank: 3}, {Name: "NODES", Rank: 2}, {Name: "SLOTS"}, {Name: "FREE"}, {Name: "PRICE", Rank: 1}}
	return cli.ShowList(ctx, s, api.PathSKUs, &api.ListFilter{}, columns, func(l api.SKUList) [][]string {
		return cli.Rows(l.SKUs, func(k api.SKU) []string {
			return []string{k.Name, k.Shape, k.Model, strconv.Itoa(k.GPUs), strconv.Itoa(k.Nodes), strconv.Itoa(k.Slots), strconv.Itoa(k.Free),
				prices(k)}
		})
	})
}

// prices are what an hour of one slot costs.
func prices(k api.SKU) string {
	least, most := screen.Price(k.PriceMin), screen.Price(k.PriceMax)
	if least == most || k.PriceMax == nil {
		return least
	}
	return least + " to " + most
}

func skuExplain(ctx context.Context, s *cli.Session) error {
	k, err := cli.Get[api.SKUExplained](ctx, s, api.At(api.PathSKU, s.Words[0]), api.ListFilter{Tenant: s.Flags.Text("tenant")})
	switch {
	case err != nil:
		return err
	case s.Form == cli.FormJSON:
		return s.WriteJSON(k)
	}
	screen.Pairs(s.Stdout, s.Screen(), explained(k))
	if len(k.List) == 0 {
		return nil
	}
	fmt.Fprintln(s.Stdout)
	columns := []screen.Column{{Name: "NODE", Least: 10, Most: 40}, {Name: "SLOTS"}, {Name: "FREE"}, {Name: "WHY", Least: 16}}
	err = s.List(columns).Write(cli.Rows(k.List, func(v api.SKUVerdict) []string {
		return []string{v.Node, strconv.Itoa(v.Slots), strconv.Itoa(v.Free), strings.Join(v.Why, "; ")}
	}))
	if len(k.List) >= api.MostVerdicts {
		fmt.Fprintf(s.Stdout, "the first %d nodes\n", len(k.List))
	}
	return err
}

func explained(k api.SKUExplained) [][]string {
	rows := [][]string{{"SKU", k.Name}}
	for _, rule := range k.Rules {
		rows = append(rows, []string{"is", rule})
	}
	rows = append(rows, []string{"nodes", fmt.Sprintf("%d qualify", k.Nodes)},
		[]string{"slots", fmt.Sprintf("%d, of which %d can be allocated now", k.Slots, k.Free)}, []string{"price", prices(k.SKU)})
	for _, c := range k.Counts {
		rows = append(rows, []string{"not", screen.Plural(c.Nodes, "node") + ": " + c.Why})
	}
	if len(k.Nearest) > 0 {
		rows = append(rows, []string{"nearest", strings.Join(k.Nearest, ", ")})
	}
	return rows
}
