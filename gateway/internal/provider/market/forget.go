package market

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/provider/cloud"
	"muster/store"
)

const (
	forgotten = "given up: account removed"
	deadAfter = 24 * time.Hour   // a company that gives no view for so long, for another reason than the key
	mostNamed = 20               // instances in an event
	askedFor  = 30 * time.Second // so long a company is asked once more
)

// Forget does what Remove does, for an account whose company cannot be asked any more, so that nothing can be given back there. Everything
// of the account that has not ended ends on record, each with an event. Its machines may run on, and be charged, and nobody here would see
// that. So Forget asks the company once more before.
func (d *Service) Forget(ctx context.Context, name string, by store.Actor) error {
	a := d.find(name)
	if a == nil {
		return noAccount(name)
	}
	noKey, err := d.isDead(ctx, a)
	if err != nil {
		return err
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	left, _, _ := d.Instances(name)
	var ids []string
	for _, i := range left[:min(len(left), mostNamed)] {
		ids = append(ids, i.ID)
	}
	e := d.event("provider.removed", a, by, map[string]string{"why": "its company cannot be asked any more",
		"forgotten": fmt.Sprint(len(left)), "instances": strings.Join(ids, " ")})
	switch err := d.Records.ForgetAccount(ctx, name, forgotten, d.Now(), noKey, e); {
	case errors.Is(err, store.ErrNotFound):
		return noAccount(name)
	case errors.Is(err, store.ErrConflict):
		return wire.Refuse(wire.CodeIllegalMove, "the account "+name+" works again", "give its machines back: muster lease ls --provider "+name)
	case err != nil:
		return err
	}
	d.dropped(a)
	return nil
}

// isDead refuses an account whose company shows its machines, or may soon show them again. noKey is true where there is no key to ask with.
func (d *Service) isDead(ctx context.Context, a *account) (noKey bool, err error) {
	if _, err := d.Cloud(a.Name); err != nil {
		return true, nil
	}
	limited, cancel := context.WithTimeout(ctx, askedFor)
	defer cancel()
	err = d.view(limited, a)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = &cloud.Error{Kind: cloud.Unclear, Text: "its answer took longer than " + askedFor.String()}
	}
	d.mu.RLock()
	since := a.FailedAt
	d.mu.RUnlock()
	said := new(cloud.Error)
	switch {
	case err == nil:
		return false, wire.Refuse(wire.CodeIllegalMove, "the key of the account "+a.Name+" works, so that its machines can be given back",
			"muster lease ls --provider "+a.Name+"; then muster provider remove "+a.Name)
	case !errors.As(err, &said):
		return false, err
	case said.Kind == cloud.KeyRefused, since != nil && d.Now().Sub(*since) >= deadAfter:
		return false, nil
	}
	return false, wire.Refuse(wire.CodeIllegalMove, "the company does not refuse the key of "+a.Name+": it gives no answer that can be used ("+
		said.Text+")", "it may answer soon: try again; after "+deadAfter.String()+" without an answer the account can go")
}
