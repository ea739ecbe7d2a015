package runpod

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/cloud/call"
)

// tiers are RunPod's own machines and those of others. They are asked for one by one.
var tiers = []string{"SECURE", "COMMUNITY"}

// gpuType is a model of GPU in the catalogue, with what is there of it in one tier.
type gpuType struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Memory int64  `json:"memory"` // GB, as the model is sold
	Price  struct {
		Secure    *float64 `json:"secure"` // of one GPU, an hour
		Community *float64 `json:"community"`
	} `json:"price"`
	Most struct {
		Secure    int `json:"secure"` // GPUs of one machine
		Community int `json:"community"`
	} `json:"maxCount"`
	Stock   string   `json:"availability"`
	Centers []center `json:"dataCenters"`
}

// center is a data center.
type center struct {
	ID    string `json:"id"`
	Stock string `json:"availability"`
}

// Offers returns the kinds of machines that are in stock. Each can be rented more than once, as long as there is stock. Interruptible
// machines are not among them: the REST API has none.
func (c *Cloud) Offers(ctx context.Context, w cloud.Want) ([]cloud.Offer, error) {
	all, count := []cloud.Offer{}, max(w.GPUs, 1)
	for _, tier := range tiers {
		query := url.Values{"include": {"AVAILABILITY"}, "product": {"POD"}, "cloud": {tier}, "count": {strconv.Itoa(count)}}
		r := call.Request{Method: http.MethodGet, Path: "/catalog/gpus", Query: query}
		err := c.calls.Do(ctx, r, func(answer io.Reader) error {
			_, err := call.List(answer, "gpus", func(t gpuType) error { all = append(all, t.offers(tier, w)...); return nil })
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	cloud.Cheapest(all)
	return all, nil
}

// offers are those of one model that are wanted.
func (t *gpuType) offers(tier string, w cloud.Want) []cloud.Offer {
	price, most, count := t.Price.Secure, t.Most.Secure, max(w.GPUs, 1)
	if tier != tiers[0] {
		price, most = t.Price.Community, t.Most.Community
	}
	if t.ID == "" || price == nil || *price <= 0 || count > most || !stocked(t.Stock) {
		return nil
	}
	hour := cloud.PerHour(*price * float64(count))
	if hour == nil {
		return nil
	}
	o := cloud.Offer{GPU: cloud.Words(t.ID), GPUs: count, Price: *hour + disk(diskOf(w.DiskGB), diskMonth)}
	if t.Memory > 0 && t.Memory < 1<<20 {
		mib := t.Memory << 10
		o.GPUMiB = &mib
	}
	centers := t.Centers
	if len(centers) == 0 { // RunPod does not say where
		centers = []center{{Stock: t.Stock}}
	}
	var wanted []cloud.Offer
	for _, at := range centers {
		o.Region, o.ID = cloud.Words(at.ID), offerID(tier, at.ID, count, t.ID)
		if stocked(at.Stock) && w.Takes(o, t.Name) {
			wanted = append(wanted, o)
		}
	}
	return wanted
}

// stocked is true for LOW, MEDIUM and HIGH. A word that is missing is no promise.
func stocked(word string) bool { return word != "" && word != "NONE" }

// offerID names an offer: TIER/DATACENTER/COUNT/MODEL, with + for a space.
func offerID(tier, center string, count int, model string) string {
	return strings.ToLower(tier) + "/" + url.QueryEscape(center) + "/" + strconv.Itoa(count) + "/" + url.QueryEscape(model)
}

// offered is an order for an offer, by its id.
func offered(id string) (order, error) {
	odd := errors.New("that is no offer of RunPod: one is secure/DATACENTER/COUNT/MODEL")
	parts := strings.Split(id, "/")
	if len(parts) != 4 || parts[0] != "secure" && parts[0] != "community" {
		return order{}, odd
	}
	center, bad := url.QueryUnescape(parts[1])
	model, worse := url.QueryUnescape(parts[3])
	count, worst := strconv.Atoi(parts[2])
	if bad != nil || worse != nil || worst != nil || count < 1 || model == "" {
		return order{}, odd
	}
	o := order{Cloud: strings.ToUpper(parts[0]), GPU: gpu{model, count}}
	if center != "" {
		o.DataCenters = []string{center}
	}
	return o, nil
}
