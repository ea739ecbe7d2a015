// Package dial makes the client of a company, by the company's kind.
package dial

import (
	"fmt"

	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/cloud/call"
	"muster/gateway/internal/provider/cloud/lambda"
	"muster/gateway/internal/provider/cloud/runpod"
	"muster/gateway/internal/provider/cloud/vast"
	"muster/gateway/internal/provider/market"
)

// Company makes the client of a company. It asks nothing yet.
func Company(kind string, d market.Dial) (market.Cloud, error) {
	a := call.Account{URL: d.URL, Key: d.Key}
	switch kind {
	case cloud.Vast:
		return vast.New(a)
	case cloud.RunPod:
		return runpod.New(a)
	case cloud.Lambda:
		return lambda.New(a)
	}
	return nil, fmt.Errorf("no company is called %q", kind)
}
