package placement

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

func quotaList(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "TENANT", Least: 8}, {Name: "QUOTA"}, {Name: "USED"}, {Name: "LEFT"}}
	return cli.ShowList(ctx, s, api.PathQuotas, &api.ListFilter{}, columns, func(l api.QuotaList) [][]string {
		return cli.Rows(l.Quotas, func(q api.Quota) []string {
			return append([]string{q.Tenant}, quota(q)...)
		})
	})
}

// quota is how many GPUs a tenant may have, has, and may still get.
func quota(q api.Quota) []string {
	if q.GPUs == nil {
		return []string{none, strconv.Itoa(q.Used), screen.Unknown}
	}
	return []string{strconv.Itoa(*q.GPUs), strconv.Itoa(q.Used), strconv.Itoa(max(*q.GPUs-q.Used, 0))}
}

func quotaSet(ctx context.Context, s *cli.Session) error {
	tenant := s.Words[0]
	gpus, err := strconv.Atoi(s.Words[1])
	if err != nil || gpus < 0 {
		return cli.Usagef("write muster quota set TENANT 16", "%q is no number of GPUs", s.Words[1])
	}
	if err := s.AskTenant(ctx, tenant); err != nil {
		return err
	}
	return cli.Show(ctx, s, http.MethodPut, api.At(api.PathQuota, tenant), api.QuotaRequest{GPUs: &gpus}, func(q api.Quota) {
		text := fmt.Sprintf("%s: at most %s at once, %d in use", tenant, screen.Plural(gpus, "GPU"), q.Used)
		if q.Used > gpus {
			text += "; it keeps what it has, and gets no more"
		}
		s.Printf("%s\n", text)
	})
}

func quotaRemove(ctx context.Context, s *cli.Session) error {
	tenant := s.Words[0]
	if err := s.Agree("remove the quota of "+tenant, "remove the quota of "+tenant); err != nil {
		return err
	}
	if _, err := cli.Send[api.Quota](ctx, s, http.MethodPut, api.At(api.PathQuota, tenant), api.QuotaRequest{}); err != nil {
		return err
	}
	s.Printf("%s\n", tenant+" has no quota any more.")
	return nil
}
