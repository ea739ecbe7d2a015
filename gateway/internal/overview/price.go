package overview

import (
	"strconv"
	"strings"
)

// LabelPrice is the label with what a node costs.
const LabelPrice = "price_per_hour"

const mostPrice = 1e6 // an hour; more is a mistake, and would drown the sum of the fleet

// Price reads the label of a price, such as 1.99; nil: there is none, or it is no price.
func Price(labels map[string]string) *float64 {
	text := labels[LabelPrice]
	if text == "" || strings.Trim(text, "0123456789.") != "" {
		return nil
	}
	price, err := strconv.ParseFloat(text, 64)
	if err != nil || price > mostPrice {
		return nil
	}
	return &price
}
