package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/store"
)

// minPSK is the least length in characters of a PSK that a person chooses.
const minPSK = 20

// GeneratePSK makes a PSK of 131 random bits, and makes it the only live one. The secret is kept nowhere.
func (b *Bootstrap) GeneratePSK(ctx context.Context, by store.Actor) (secret, id string, err error) {
	if secret, err = sign.NewPSK(b.config.Rand); err != nil {
		return "", "", err
	}
	id, err = b.SetPSK(ctx, secret, by)
	return secret, id, err
}

// SetPSK makes secret the only live PSK. A short one is refused as weak_secret.
func (b *Bootstrap) SetPSK(ctx context.Context, secret string, by store.Actor) (id string, err error) {
	psk, err := b.newPSK(secret)
	if err != nil {
		return "", err
	}
	e := b.event("psk.set", "", by)
	e.Detail = map[string]string{"psk": psk.ID}
	defer b.marks.forget()
	return psk.ID, b.config.Store.SetPSK(ctx, psk, e)
}

// RotatePSK adds a second live PSK; with an empty secret it generates one. Nodes may join with either PSK until the older one is
// cleared. A third one is refused as psk_limit.
func (b *Bootstrap) RotatePSK(ctx context.Context, secret string, by store.Actor) (shown, id string, err error) {
	if secret == "" {
		if secret, err = sign.NewPSK(b.config.Rand); err != nil {
			return "", "", err
		}
	}
	psk, err := b.newPSK(secret)
	if err != nil {
		return "", "", err
	}
	e := b.event("psk.rotated", "", by)
	e.Detail = map[string]string{"psk": psk.ID}
	defer b.marks.forget()
	err = b.config.Store.AddPSK(ctx, psk, e)
	if errors.Is(err, store.ErrConflict) {
		return "", "", wire.Refuse(
			wire.CodePSKLimit, "two PSKs are live already",
			"end the older one first: muster psk clear --keep ID (muster psk ls shows the ids)")

	}
	return secret, psk.ID, err
}

// ClearPSK ends every PSK except the one with the id keep. An empty keep ends all.
func (b *Bootstrap) ClearPSK(ctx context.Context, keep string, by store.Actor) error {
	if keep != "" {
		_, err := b.config.Store.PSK(ctx, keep)
		if errors.Is(err, store.ErrNotFound) { // the text is not repeated: it may be the PSK itself
			return wire.Refuse(wire.CodeNotFound, "no PSK has the id that is to be kept", "muster psk ls shows the ids: psk- and 8 digits")
		}
		if err != nil {
			return err
		}
	}
	e := b.event("psk.cleared", "", by)
	if keep != "" {
		e.Detail = map[string]string{"kept": keep}
	}
	defer b.marks.forget()
	return b.config.Store.ClearPSKs(ctx, keep, e)
}

// PSKs lists the live PSKs, newest first.
func (b *Bootstrap) PSKs(ctx context.Context) ([]store.PSK, error) { return b.config.Store.PSKs(ctx) }

// newPSK cuts off what agents cut off too: with it no machine could join.
func (b *Bootstrap) newPSK(secret string) (store.PSK, error) {
	secret = strings.TrimSpace(strings.TrimPrefix(secret, "\ufeff")) // the mark that some editors put before a text
	if len([]rune(secret)) < minPSK {
		return store.PSK{}, wire.Refuse(
			wire.CodeWeakSecret, fmt.Sprintf("a PSK needs at least %d characters", minPSK),
			"let the gateway make one: muster psk set --generate")

	}
	if _, err := sign.ParseToken(secret); err == nil || errors.Is(err, sign.ErrMistyped) {
		return store.PSK{}, wire.Refuse(
			wire.CodeWeakSecret, "this looks like a token, not like a PSK", "muster psk set --generate makes one")

	}
	if sign.CheckPSK(secret) != nil {
		return store.PSK{}, wire.Refuse(
			wire.CodeWeakSecret, "this begins as a generated PSK (msk_) and is none: it is mistyped or cut off",
			"copy it again, or let the gateway make one: muster psk set --generate")

	}
	key, err := sign.PSKKey(secret)
	if err != nil {
		return store.PSK{}, err
	}
	mark, err := newMark(secret, b.config.Rand)
	return store.PSK{ID: sign.PSKID(key), Key: key, Mark: mark, CreatedAt: b.config.Now()}, err
}
