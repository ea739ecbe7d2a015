package remote

import (
	"context"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/client"
)

// patience is how long one request may take. The gateway answers after wire.PieceWait; a way that swallows requests is known by this.
const patience = wire.PieceWait + 5*time.Second

// way carries the pieces of one session over the admin API: through the socket, by TLS, or through a proxy. Whatever is no word of the
// gateway's own, such as the page of a proxy, is trouble on the way.
type way struct {
	client   *client.Client
	node, id string
}

func newWay(c *client.Client, s api.Session) *way {
	return &way{client: c, node: s.NodeID, id: s.ID}
}

// Send implements pipe.Carrier.
func (w *way) Send(ctx context.Context, channel int, at int64, p pipe.Piece) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return w.client.SendPiece(ctx, w.node, w.id, channel, at, p)
}

// Fetch implements pipe.Carrier.
func (w *way) Fetch(ctx context.Context, channel int, at int64, _ []byte) (pipe.Piece, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return w.client.FetchPiece(ctx, w.node, w.id, channel, at, wire.PieceWait)
}
