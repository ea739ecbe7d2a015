package identity

import (
	"fmt"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/wire"
)

// maxMove is how far a gateway may move what this machine takes for the time, where it decides what has been issued.
const maxMove = 24 * time.Hour

// Latest returns the later one of this machine's time and the gateway's. What has expired by that time has expired: a gateway that teaches
// an earlier time brings nothing back.
func Latest(c *transport.Client) time.Time { return c.Local().Add(max(c.Offset(), 0)) }

// Expired refuses something that has expired, and names this machine's clock if it is well ahead of the gateway's. next is what a person
// does.
func Expired(c *transport.Client, message, next string) error {
	if ahead := -c.Offset(); ahead > 10*time.Second {
		message += fmt.Sprintf("; the node's clock is %v ahead of the gateway's", ahead.Round(time.Second))
		next = "set the node's clock (timedatectl set-ntp true), then " + next
	}
	return wire.Refuse(wire.CodeTaskExpired, message, next)
}

// Within returns the gateway's time as far as the gateway may move this machine's: by a day. It may move a clock further if that clock
// cannot be right, because it shows a time before the certificate in use was issued. Something that was issued after the returned time
// counts as not issued yet.
func (s State) Within(c *transport.Client) time.Time {
	local := c.Local()
	offset := c.Offset()
	if leaf, err := s.Leaf(); err == nil && !local.Before(leaf.NotBefore) {
		offset = min(max(offset, -maxMove), maxMove)
	}
	return local.Add(offset)
}
