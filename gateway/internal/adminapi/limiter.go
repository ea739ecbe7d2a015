package adminapi

import (
	"time"

	"muster/gateway/internal/limit"
)

// A caller may be refused so often in a row, and once more each refill. Only failures are counted: a caller with a good token is
// never slowed down by others behind the same address.
const (
	refusalBurst  = 10
	refusalRefill = 6 * time.Second
	writeBurst    = 60 // refused writes of a caller who may write
)

func (a *API) limiter(burst int) *limit.Limiter {
	return limit.New(limit.Config{Burst: burst, Every: refusalRefill, Now: a.Now})
}
