package cloud

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
)

const (
	longestText = 300                // bytes of a company's words
	highest     = 1_000_000 * Dollar // an hour: more is not believed
)

var (
	isID   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)
	isHost = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)
	isMore = regexp.MustCompile(`(?i)error|next|cursor|token|page|more`)
	isUser = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
)

// ValidID reports whether a text can be the id of an instance. Such an id can stand in a path.
func ValidID(id string) bool { return isID.MatchString(id) }

// Words returns a text of a company on one line, bounded.
func Words(text string) string { return wire.Plain(text, longestText) }

// Whole refuses a list without pages that has an error beside it, or the way to another page.
func Whole(others map[string]json.RawMessage) error {
	for name, value := range others {
		if isMore.MatchString(name) && !slices.Contains([]string{"null", "false", "0", `""`, "[]", "{}"}, string(value)) {
			return fmt.Errorf("it is not the whole list: it has %s too", Words(name))
		}
	}
	return nil
}

// PerHour returns a price in dollars; nil: no price like that can be believed.
func PerHour(dollars float64) *Money {
	if !(dollars >= 0 && dollars <= highest.Dollars()) {
		return nil
	}
	m := Money(math.Round(dollars * float64(Dollar)))
	return &m
}

// SSHAt returns where an ssh server listens; nil: that is no address. Its parts can stand in ssh's arguments.
func SSHAt(host string, port int, user string) *Address {
	addr, err := netip.ParseAddr(host)
	if (err != nil || addr.Zone() != "") && !isHost.MatchString(host) || port < 1 || port > 65535 || !isUser.MatchString(user) {
		return nil
	}
	return &Address{Host: host, Port: port, User: user}
}

// At reads a time of RFC 3339; nil: the text is no time.
func At(text string) *time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil
	}
	t = t.UTC()
	return &t
}

// Takes reports whether an offer has what is wanted. alias is another name of the model. Only the company knows whether it has a disk of
// that size.
func (w Want) Takes(o Offer, alias string) bool {
	model := squeeze(w.GPU)
	return (strings.Contains(squeeze(o.GPU), model) || strings.Contains(squeeze(alias), model)) &&
		o.GPUs >= w.GPUs &&
		(w.GPUMiB == 0 || o.GPUMiB != nil && *o.GPUMiB >= w.GPUMiB) &&
		(w.MaxPrice == 0 || o.Price <= w.MaxPrice) &&
		strings.Contains(strings.ToLower(o.Region), strings.ToLower(w.Region))
}

// squeeze makes the spellings of a model one: RTX_4090, rtx-4090 and RTX 4090.
func squeeze(model string) string {
	return strings.NewReplacer(" ", "", "-", "", "_", "").Replace(strings.ToLower(model))
}

// Cheapest puts the cheapest offer first.
func Cheapest(offers []Offer) {
	slices.SortFunc(offers, func(a, b Offer) int { return cmp.Or(cmp.Compare(a.Price, b.Price), strings.Compare(a.ID, b.ID)) })
}
