package market

import (
	"context"

	"muster/gateway/internal/provider/cloud"
)

// Cloud is one account with a company. Its methods may be called from any number of goroutines; calls of one account are paced. All errors
// are *Error, or that of ctx.
type Cloud interface {
	// List passes all instances to take, page by page. take has seen all of them only if List returns nil.
	List(ctx context.Context, take func([]cloud.Instance)) error
	// Get returns one instance. The error is NoSuch only if the company says clearly that there is no such instance.
	Get(ctx context.Context, id string) (cloud.Instance, error)
	Start(ctx context.Context, id string) error
	// Stop stops an instance. The error is Refused if the company cannot stop machines.
	Stop(ctx context.Context, id string) error
	// Destroy asks for the end of an instance. It also returns nil if the instance is gone or ends already; only List and Get tell that it
	// is gone.
	Destroy(ctx context.Context, id string) error
	Offers(ctx context.Context, w cloud.Want) ([]cloud.Offer, error)
	// Create rents an offer, and returns the instance's id. After an Unclear, an instance with the order's name may exist.
	Create(ctx context.Context, o cloud.Order) (id string, err error)
	// Rejoin starts a machine that runs again with another script. The error is Refused if the company cannot do that.
	Rejoin(ctx context.Context, id, script string) error
}
