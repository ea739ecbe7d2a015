package hardware

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
)

// Tags returns the names by which a node's hardware is selected, in order. In a container the network cards of the host do not count: the
// container may have none of them.
func Tags(f wire.Facts) []api.Tag {
	counts := map[api.Tag]int{}
	linked := 0
	for _, g := range GPUs(f) {
		counts[api.Tag{Name: g.tag, From: g.from}]++
	}
	for _, a := range f.Accelerators {
		if model, _, _ := name(wire.PCIDevice{}, a.Name); a.Links != nil && *a.Links > 0 && strings.Contains(model, "-sxm") {
			linked++ // elsewhere the links may lead nowhere: a board in a PCIe slot has them also without a bridge
		}
	}
	for _, d := range f.PCI {
		i := slices.IndexFunc(cards[:], func(c card) bool { return c.model == "" && c.id == d.Vendor+":"+d.Device })
		if i >= 0 && !d.Virtual && !f.Contained {
			counts[api.Tag{Name: cards[i].tag, From: "PCI " + cards[i].id}]++
		}
	}
	if linked > 0 {
		counts[api.Tag{Name: tagNVLink, From: "GPU with NVLinks"}] = linked
	}
	tags := merge(counts)
	if server := server(f.Vendor, f.Product); server != "" {
		tags = append(tags, api.Tag{Name: server, From: "DMI " + wire.OneLine(f.Vendor+" "+f.Product, 96)})
	}
	slices.SortFunc(tags, func(a, b api.Tag) int { return cmp.Compare(a.Name, b.Name) })
	return tags
}

// merge makes one tag of those with the same name, and says how often each of its reasons was seen.
func merge(counts map[api.Tag]int) []api.Tag {
	from := map[string][]string{}
	for tag, n := range counts {
		from[tag.Name] = append(from[tag.Name], fmt.Sprintf("%d x %s", n, tag.From))
	}
	tags := []api.Tag{}
	for name := range from {
		slices.Sort(from[name])
		tags = append(tags, api.Tag{Name: name, From: strings.Join(from[name], ", ")})
	}
	return tags
}

// server is the tag of a machine by its DMI, such as server-dell-xe9680l; "": its DMI says nothing.
func server(vendor, product string) string {
	maker, _, _ := strings.Cut(word(vendor), "-")
	rest := strings.Split(word(product), "-")
	for len(rest) > 1 && slices.Contains([]string{maker, "poweredge", "proliant", "thinksystem", "system"}, rest[0]) {
		rest = rest[1:] // the name of the maker or of its line, which all of its machines have
	}
	model := strings.Join(rest, "-")
	if maker == "" || model == "" || blank(vendor) || blank(product) {
		return ""
	}
	return clip("server-" + maker + "-" + model)
}

// blank is true for what makers leave in a DMI that nobody filled in.
func blank(text string) bool {
	text = strings.ToLower(text)
	fillers := []string{"to be filled", "o.e.m.", "default string", "system manufacturer", "system product name", "not specified"}
	return slices.ContainsFunc(fillers, func(filler string) bool { return strings.Contains(text, filler) })
}
