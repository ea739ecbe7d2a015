// Package label says which labels the gateway reads for itself, and how their values are written. Every other label is free text. It also
// reads the selectors by which operators choose nodes: by labels, and by what the gateway knows of a node itself.
package label

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
)

// Price is the label with the price of an hour of a node, in the operator's own currency.
const Price = "price_per_hour"

// RentedFor is the label of a node that was rented for one allocation: its id.
const RentedFor = "rented_for"

// Labels by which an operator or a token says what is paid for. The node's own labels do not count: it would judge itself.
const (
	GPUModel  = "gpu_model"      // such as h100
	GPUMemory = "gpu_memory_gib" // of each GPU
)

const mostPrice = 1e6 // an hour; more is a mistake, and would drown the sum of the fleet

// PriceOf reads the label of a price, such as 1.99; nil: there is no such label, or it is no price.
func PriceOf(labels map[string]string) *float64 { return readPrice(labels[Price]) }

func readPrice(text string) *float64 {
	if text == "" || strings.Trim(text, "0123456789.") != "" {
		return nil
	}
	price, err := strconv.ParseFloat(text, 64)
	if err != nil || price > mostPrice {
		return nil
	}
	return &price
}

// Check refuses labels that wire.CheckLabels refuses, and values that the gateway could not read. An empty value is allowed: it means that
// there is no value.
func Check(labels map[string]string) error {
	if err := wire.CheckLabels(labels); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if hint := misread(key, labels[key]); hint != "" {
			return wire.Refuse(wire.CodeBadLabel, fmt.Sprintf("the label %s cannot be %q", key, labels[key]), hint)
		}
	}
	return nil
}

// Understood returns the labels that an agent proposes, without those that the gateway cannot read and those that only an operator or a
// token may set. dropped are the keys of what it leaves out. A mistake in a label must not keep its node out.
func Understood(labels map[string]string) (good map[string]string, dropped []string) {
	good = maps.Clone(labels)
	maps.DeleteFunc(good, func(key, value string) bool {
		drops := key == wire.LabelChannel || key == wire.LabelWindow || misread(key, value) != ""
		if drops {
			dropped = append(dropped, key)
		}
		return drops
	})
	slices.Sort(dropped)
	return good, dropped
}

// misread says how the value of a label is written; "": it can be read, or it is free text.
func misread(key, value string) string {
	if value == "" {
		return ""
	}
	switch key {
	case Price:
		if readPrice(value) == nil {
			return "a price is a number from 0 to 1000000, in your own currency and without its sign, such as " + Price + "=1.99"
		}
	case wire.LabelChannel:
		if wire.CheckChannel(value) != nil {
			return "a channel has 1 to 63 letters, digits, dots, dashes or underscores, such as " + key + "=" + wire.DefaultChannel
		}
	case api.LabelSSHUser:
		if api.SSHOf(map[string]string{key: value}).User == "" {
			return "a user of ssh has up to 64 letters, digits, dots, dashes, underscores or @, such as " + key + "=ada"
		}
	case api.LabelSSHPort:
		if api.SSHOf(map[string]string{key: value}).Port == 0 {
			return "a port is a number from 1 to 65535, such as " + key + "=2222"
		}
	case wire.LabelWindow:
		if _, err := ParseWindow(value); err != nil {
			return err.Error()
		}
	}
	return ""
}
