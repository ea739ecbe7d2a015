package heartbeat

import (
	"context"
	"time"

	"muster/agent/internal/identity"
)

// setsPause is the least time between two fetches of the trust sets because of their number alone.
const setsPause = 5 * time.Minute

// trusted fetches the gateway's trust sets where err, or the number in a proven answer, says that there may be newer ones. It
// reports whether there were. Then what failed is tried again at once.
func (l *Loop) trusted(ctx context.Context, err error, newest int64) bool {
	behind := newest > l.number && !time.Now().Before(l.setsPoll)
	if !identity.StaleTrust(err) && !behind || ctx.Err() != nil {
		return false
	}
	l.progress(ctx) // the exchange before this one may have taken its whole time
	l.setsPoll = time.Now().Add(setsPause)
	next, news, failed := identity.RefreshTrust(ctx, l.Client, l.State)
	if failed == nil && news {
		failed = l.believe(next)
	}
	if failed != nil {
		l.Logger.Warn("the gateway's trust sets bring nothing new", "error", failed)
		return false
	}
	return news
}

// believe makes newer roots and keys durable and goes by them.
func (l *Loop) believe(next identity.State) error {
	if _, err := next.Transport(); err != nil {
		return err
	}
	if err := l.Directory.Save(next); err != nil {
		return err
	}
	at := l.renewal.at
	taken := l.renewal.taken
	if err := l.use(next); err != nil {
		return err
	}
	l.renewal.at = at
	l.renewal.taken = taken // the certificate is the same
	l.setsPoll = time.Time{}
	l.nextBeat = time.Now()
	l.Logger.Info("the gateway's roots and keys have changed: going by the newest signed set", "number", l.number)
	return nil
}
