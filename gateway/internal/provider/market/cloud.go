package market

import (
	"context"

	"muster/gateway/internal/provider/cloud"
)

// Cloud is one account with a company. Its methods may be called from any number of goroutines; calls of one account are paced. All errors
// are *Error, or that of ctx.
type Cloud interface {
	// List gives all instances, page by page. Only if it returns nil, take has seen all of them.
	List(ctx context.Context, take func([]cloud.Instance)) error
	// Get is one instance. It is NoSuch when the company says so in words that are sure.
	Get(ctx context.Context, id string) (cloud.Instance, error)
	Start(ctx context.Context, id string) error
	// Stop is Refused where a company cannot stop machines.
	Stop(ctx context.Context, id string) error
	// Destroy asks for the end. It is nil also where the instance is gone or ends already; that it is gone only List and Get tell.
	Destroy(ctx context.Context, id string) error
	Offers(ctx context.Context, w cloud.Want) ([]cloud.Offer, error)
	// Create rents, and returns the instance's id. After Unclear, an instance with the order's name may exist.
	Create(ctx context.Context, o cloud.Order) (id string, err error)
	// Rejoin has a machine that runs start again with another script. It is Refused where a company cannot.
	Rejoin(ctx context.Context, id, script string) error
}
