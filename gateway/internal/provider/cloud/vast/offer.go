package vast

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"

	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/cloud/call"
)

const (
	mostOffers    = 500
	usualDisk     = 16 // GB
	leastDisk     = 8
	longestScript = 4096
	longestLabel  = 256
	usualImage    = "vastai/base-image:@vastai-automatic-tag" // vast.ai's own, which has an ssh server
	bidding       = "-bid"                                    // ends the id of an interruptible offer: a machine may be offered both ways
	overBid       = 1.05                                      // of the least bid: the least itself is outbid at once
	scriptTooLong = "the start script has more than 4096 bytes: vast.ai does not take it"
)

// disk is the size of a disk that is rented, in GB.
func disk(wanted int) int {
	if wanted == 0 {
		return usualDisk
	}
	return max(wanted, leastDisk)
}

// Offers asks which models vast.ai knows by the name that is wanted, and who rents them.
func (c *Cloud) Offers(ctx context.Context, w cloud.Want) ([]cloud.Offer, error) {
	models, err := c.models(ctx, w.GPU)
	if err != nil || len(models) == 0 {
		return nil, err
	}
	all, err := c.search(ctx, w, models, "on-demand")
	if err != nil {
		return nil, err
	}
	if w.Bid {
		bids, err := c.search(ctx, w, models, "bid")
		if err != nil {
			return nil, err
		}
		all = append(all, bids...)
	}
	cloud.Cheapest(all)
	return all, nil
}

// models are the names of vast.ai in which a name is.
func (c *Cloud) models(ctx context.Context, name string) (models []string, err error) {
	r := call.Request{Method: http.MethodGet, Path: "/api/v0/gpu_names/unique/", Class: searching}
	err = c.calls.Do(ctx, r, func(answer io.Reader) error {
		_, err := call.List(answer, "gpu_names", func(model string) error {
			if (cloud.Want{GPU: name}).Takes(cloud.Offer{GPU: model}, "") {
				models = append(models, model)
			}
			return nil
		})
		return err
	})
	return models, err
}

// search asks for offers of one type.
func (c *Cloud) search(ctx context.Context, w cloud.Want, models []string, kind string) ([]cloud.Offer, error) {
	r := call.Request{Method: http.MethodPost, Path: "/api/v0/bundles/", Body: query(w, models, kind), Class: searching}
	return call.Ask(ctx, c.calls, r, func(answer io.Reader) ([]cloud.Offer, error) { return readOffers(answer, w, kind == "bid") })
}

// query is what vast.ai sorts out by itself.
func query(w cloud.Want, models []string, kind string) map[string]any {
	is := func(operator string, value any) map[string]any { return map[string]any{operator: value} }
	q := map[string]any{
		"verified": is("eq", true), "rentable": is("eq", true), "rented": is("eq", false), "external": is("eq", false),
		"gpu_name": is("in", models), "num_gpus": is("gte", max(w.GPUs, 1)), "disk_space": is("gte", disk(w.DiskGB)),
		"allocated_storage": disk(w.DiskGB), "type": kind, "order": [][]string{{"dph_total", "asc"}}, "limit": mostOffers,
	}
	if w.GPUMiB > 0 {
		q["gpu_ram"] = is("gte", w.GPUMiB)
	}
	if w.MaxPrice > 0 {
		q["dph_total"] = is("lte", w.MaxPrice.Dollars())
	}
	if isCountry(w.Region) {
		q["geolocation"] = is("in", []string{strings.ToUpper(w.Region)})
	}
	return q
}

// isCountry is true for a code of two letters, as it stands at the end of a place: California, US.
func isCountry(region string) bool { return len(region) == 2 }

// bundle is what is read of an offer.
type bundle struct {
	ID          word   `json:"id"`
	Machine     word   `json:"machine_id"`
	GPU         word   `json:"gpu_name"`
	GPUs        number `json:"num_gpus"`
	GPURAM      number `json:"gpu_ram"`
	Total       number `json:"dph_total"` // with the disk that was asked for
	MinBid      number `json:"min_bid"`
	Reliability number `json:"reliability2"`
	End         number `json:"end_date"`
	Place       word   `json:"geolocation"`
}

// readOffers reads offers. One that cannot be believed is left out.
func readOffers(answer io.Reader, w cloud.Want, bid bool) ([]cloud.Offer, error) {
	var all []cloud.Offer
	_, err := call.List(answer, "offers", func(b bundle) error {
		if o, ok := b.offer(bid); ok && wanted(w, o) {
			all = append(all, o)
		}
		return nil
	})
	return all, err
}

// wanted is true for an offer that has what is wanted. The code of a country is the end of a place.
func wanted(w cloud.Want, o cloud.Offer) bool {
	if isCountry(w.Region) {
		if !strings.HasSuffix(strings.ToUpper(o.Region), strings.ToUpper(w.Region)) {
			return false
		}
		w.Region = ""
	}
	return w.Takes(o, "")
}

// offer is the bundle as muster has it. Without an id, GPUs and a price it is none.
func (b *bundle) offer(bid bool) (cloud.Offer, bool) {
	id, ok := idOf(string(b.ID))
	o := cloud.Offer{
		ID: strconv.FormatInt(id, 10), Region: cloud.Words(string(b.Place)), GPU: cloud.Words(string(b.GPU)), GPUs: int(b.GPUs.whole(1024)),
		Until: b.End.at(),
	}
	price := firstOf(b.Total).price()
	if !ok || price == nil || o.GPUs == 0 {
		return o, false
	}
	o.Price = *price
	if cloud.ValidID(string(b.Machine)) {
		o.Host = string(b.Machine)
	}
	if mib := b.GPURAM.whole(math.MaxInt32); mib > 0 {
		o.GPUMiB = &mib
	}
	if b.Reliability.known && b.Reliability.value >= 0 && b.Reliability.value <= 1 {
		o.Reliability = &b.Reliability.value
	}
	return o, !bid || b.bid(&o)
}

// bid makes it an interruptible offer, which costs a little more than the least.
func (b *bundle) bid(o *cloud.Offer) bool {
	least := firstOf(b.MinBid).price()
	if least == nil || *least > o.Price {
		return false
	}
	o.ID += bidding
	o.Bid = cloud.Money(math.Ceil(float64(*least)*overBid/1000) * 1000)
	o.Price += o.Bid - *least
	return true
}

// Create rents an offer.
func (c *Cloud) Create(ctx context.Context, o cloud.Order) (string, error) {
	r, err := c.order(o)
	if err != nil {
		return "", err
	}
	r.Failed = func(e *cloud.Error, answer []byte) {
		var v verdict
		if json.Unmarshal(answer, &v) == nil {
			e.Instance = v.instance()
		}
	}
	var v verdict
	if err := c.calls.Do(ctx, r, func(answer io.Reader) error { return call.One(answer, &v) }); err != nil {
		return "", err
	}
	if e := c.judged(&v); e != nil {
		e.Instance = v.instance()
		return "", e
	}
	if v.instance() == "" {
		return "", c.calls.Fail(cloud.Unclear, http.StatusOK, "vast.ai says that it rented it, and not which instance it is")
	}
	return v.instance(), nil
}

// instance is the id of what was made; empty: it names none.
func (v *verdict) instance() string {
	id, ok := idOf(string(v.Contract))
	if !ok {
		return ""
	}
	return strconv.FormatInt(id, 10)
}

// order is the call that rents. What vast.ai would not take is not sent.
func (c *Cloud) order(o cloud.Order) (call.Request, error) {
	id, bid := strings.CutSuffix(o.Offer.ID, bidding)
	no := func(text string) (call.Request, error) { return call.Request{}, c.calls.Fail(cloud.Refused, 0, text) }
	n, ok := idOf(id)
	switch {
	case !ok:
		return no("an offer of vast.ai has a number as its id")
	case o.Name == "" || len(o.Name) > longestLabel:
		return no("an instance of vast.ai needs a label of at most 256 bytes")
	case len(o.Script) > longestScript:
		return no(scriptTooLong)
	case bid && o.Offer.Bid <= 0:
		return no("an interruptible offer has no bid")
	}
	body := map[string]any{
		"client_id": "me", "image": cmp.Or(o.Image, usualImage), "disk": disk(o.DiskGB), "label": o.Name, "runtype": "ssh", "onstart": o.Script,
		"cancel_unavail": true,
	}
	if bid {
		body["price"] = o.Offer.Bid.Dollars()
	}
	return call.Request{Method: http.MethodPut, Path: "/api/v0/asks/" + strconv.FormatInt(n, 10) + "/", Body: body, Class: creating}, nil
}
