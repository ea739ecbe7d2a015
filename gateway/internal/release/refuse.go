package release

import (
	"fmt"

	"muster/agent/wire"
)

func noRelease(name string) error {
	return wire.Refuse(wire.CodeReleaseUnknown, fmt.Sprintf("there is no release %.80q", name), "muster release ls")
}

func noChannel(name string) error {
	return wire.Refuse(wire.CodeChannelUnknown, fmt.Sprintf("nothing was ever promoted on the channel %.80q", name),
		"muster release promote DIGEST --channel CHANNEL")
}

func inUse(digest, by string) error {
	return wire.Refuse(wire.CodeReleaseInUse, "the release "+digest+" is needed by "+by, "promote another one there first")
}
