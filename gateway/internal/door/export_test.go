package door

import "context"

// Tell is what Run does once a minute.
func (d *Door) Tell(ctx context.Context) { d.tell(ctx) }
