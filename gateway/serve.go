package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"muster/gateway/internal/account"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/cluster"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/httpserver/daemon"
	"muster/gateway/internal/httpserver/outage"
	"muster/store"
)

// gateway is what the phases of open have built. Nothing changes it after that.
type gateway struct {
	base
	*parts
	leave context.CancelFunc // ends this gateway
}

// open builds the gateway. Each phase stands on those before it, and on nothing that comes later. The first account is the last: its token
// is shown only when all the rest is good.
func open(ctx context.Context, s settings, log *slog.Logger, getenv func(string) string, stdout io.Writer) (*gateway, error) {
	g := &gateway{base: base{settings: s, log: log}}
	err := g.build(ctx, getenv, stdout)
	if cluster.Ended(err) { // a phase may be at work still, and the process ends
		return nil, err
	}
	if err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *gateway) build(ctx context.Context, getenv func(string) string, stdout io.Writer) error {
	if err := g.begin(ctx, getenv, stdout); err != nil {
		return err
	}
	built := make(chan error, 1)
	go func() { built <- g.finish(ctx, getenv, stdout) }()
	select {
	case err := <-built:
		return err
	case err := <-g.cluster.Lost(): // it may wait for a store that does not answer
		return err
	}
}

// begin ends when this gateway is the active one.
func (g *gateway) begin(ctx context.Context, getenv func(string) string, stdout io.Writer) (err error) {
	if g.storage, err = openStorage(ctx, g.settings, g.log, getenv, stdout); err != nil {
		return err
	}
	if g.network, err = openNetwork(g.settings, g.log); err != nil {
		return err
	}
	if err := g.openPeers(); err != nil {
		return err
	}
	if g.cluster == nil {
		return nil
	}
	return g.standBy(ctx, g.systemd(getenv), stdout)
}

// finish builds what stands on the database.
func (g *gateway) finish(ctx context.Context, getenv func(string) string, stdout io.Writer) (err error) {
	if err := g.storage.open(ctx, g.settings, g.log); err != nil {
		return err
	}
	if g.trust, err = openTrust(ctx, g.settings, g.log, g.storage, g.network); err != nil {
		return err
	}
	if g.peers != nil {
		if err := g.openActive(ctx); err != nil {
			return err
		}
	}
	if g.sight, err = openSight(ctx, g.settings, g.log, g.storage, g.peers.copyMinutes()); err != nil {
		return err
	}
	if g.parts, err = openParts(ctx, g.base); err != nil {
		return err
	}
	return firstAccount(ctx, g.settings, g.store, getenv, stdout)
}

// close closes what stays open when run has ended. The lock goes back last.
func (g *gateway) close() {
	if g.peers != nil {
		g.peers.stop()
	}
	if g.network != nil {
		g.network.close()
	}
	if g.storage != nil {
		g.storage.close(g.log)
	}
}

// serve opens the gateway and serves until ctx ends. It says where it serves only when the listeners are open: tests wait for that line.
func serve(ctx context.Context, s settings, getenv func(string) string, stdout, stderr io.Writer) error {
	if err := checkClock(time.Now()); err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return fmt.Errorf("%s %q: write debug, info, warn or error", s.named("log-level"), s.LogLevel)
	}
	log := slog.New(outage.Quiet(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})))
	datadir.WarnExposed(log, s.Bootstrap.CredentialFile, s.MAAS.KeyFile, s.MasterKeyFile, s.StepCA.KeyFile, s.Cluster.StorePasswordFile)
	g, err := open(ctx, s, log, getenv, stdout)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) { // it was stopped while it stood by
		return nil
	}
	if err != nil {
		return err
	}
	ctx, g.leave = context.WithCancel(ctx)
	defer g.leave()
	l, err := openListeners(g)
	if err != nil {
		g.close()
		return err
	}
	g.greet(stdout)
	ended := make(chan error, 1)
	go func() {
		err := daemon.Run(ctx, g.work(l, g.systemd(getenv))...)
		g.close()
		ended <- err
	}()
	select {
	case err = <-ended:
		if g.cluster != nil && g.cluster.Handed() {
			err = errors.Join(err, cluster.ErrHandedOver)
		}
	case err = <-g.cluster.Lost(): // nothing is answered any more, and nothing that is written would be stored
	}
	return err
}

// systemd is told how this gateway is.
func (g *gateway) systemd(getenv func(string) string) daemon.Notifier {
	return daemon.Notifier{Socket: getenv("NOTIFY_SOCKET"), Logger: g.log}
}

// greet says where the gateway is and how to use it. Tests read the addresses out of these lines.
func (g *gateway) greet(stdout io.Writer) {
	certificate := "the files' certificate"
	if g.settings.TLSCert == "" {
		certificate = "its own CA"
	}
	fmt.Fprintf(stdout, "muster %s serves %s on %s with %s, root pin %s\n", version, g.reach.PublicURL, g.tls.Addr(), certificate,
		g.authority.RootPin())
	if g.plain != nil {
		fmt.Fprintf(stdout, "without TLS: %s\n", g.plain.Addr())
	}
	fmt.Fprintf(stdout, "mint a token with: %s token create --tenant TENANT\n", g.settings.muster())
}

// checkClock refuses a clock that would issue certificates of the past.
func checkClock(now time.Time) error {
	built, err := time.Parse(time.RFC3339, builtAt)
	if err != nil || !now.Before(built) {
		return nil
	}
	const text = "this machine's clock says %s, but this program was built on %s: set the clock (timedatectl set-ntp true) and start again"
	return fmt.Errorf(text, now.UTC().Format(time.RFC3339), builtAt)
}

// work lists what the gateway does by itself until ctx ends or one of them fails. The last in the list ends first, so that nothing is lost.
// First all live streams, all sessions and all waits for tasks end, because the listeners would wait for them. Then the listeners close,
// and nobody new comes in. Then the refusals that were only counted are recorded. The fleet writes last: it has the newest reports.
func (g *gateway) work(l *listeners, systemd daemon.Notifier) []daemon.Part {
	keeper := audit.Keeper{Store: g.store, Events: time.Duration(g.settings.EventsRetention), Logger: g.log}
	all := []daemon.Part{
		{Name: "garbage collection", Run: daemon.Collect},
		{Name: "overview", Run: g.overview.Run},
		{Name: "costs", Run: g.costs.Run},
		{Name: "health", Run: g.health.Run},
		{Name: "alerts", Run: g.alerts.Run},
		{Name: "log shipping", Run: g.shipping.Run},
		{Name: "placement", Run: g.placement.Run},
		{Name: "machines for allocations", Run: g.placement.Supply},
		{Name: "GPU use", Run: g.usage.Run}, // it ends after the feed has handed it the last heartbeats
		{Name: "tail", Run: g.tail.Run},
		{Name: "state of the database", Run: g.seen.Run},
	}
	all = append(all, g.rental.works()...)
	if g.settings.MAAS.Enabled() {
		all = append(all, daemon.Part{Name: "MAAS", Run: g.maas.Run})
	}
	if g.cluster != nil {
		all = append(all, daemon.Part{Name: "nodes of the store", Run: g.cluster.WatchNodes})
	}
	if g.nodeURLs != nil {
		all = append(all, daemon.Part{Name: "gateways' URLs", Run: g.nodeURLs.Run})
	}
	if g.history != nil {
		all = append(all, daemon.Part{Name: "history", Run: g.history.Run}) // it ends after the feed has handed it the last heartbeats
	}
	all = append(all, []daemon.Part{
		{Name: "feed", Run: g.feed.Run},
		{Name: "fleet", Run: g.fleet.Run},
		{Name: "refusals", Run: g.audit.Run},
		{Name: "retention", Run: keeper.Run},
		{Name: "registry", Run: g.artifacts.Run},
		{Name: "recordings", Run: g.recordings.Run},
		{Name: "connections", Run: g.limiter.Run},
		{Name: "releases", Run: g.releases.Run},
	}...)
	if g.stepCA != nil {
		all = append(all, daemon.Part{Name: "step-ca", Run: g.stepCA.Run})
	}
	return append(all, []daemon.Part{
		{Name: "listeners", Run: l.Run},
		{Name: "tasks", Run: g.tasks.Run},
		{Name: "sessions", Run: g.sessions.Run},
		{Name: "streams", Run: g.streams.Run},
		{Name: "logs", Run: g.logs.Run},
		{Name: "systemd", Run: systemd.Run},
	}...)
}

// firstAccount makes the operator's account of a new gateway. Its token is on stdout this once and nowhere else. Under systemd,
// stdout is the journal, which keeps the token and shows it to others. There the operator makes the account.
func firstAccount(ctx context.Context, s settings, db *store.Store, getenv func(string) string, stdout io.Writer) error {
	if getenv("JOURNAL_STREAM") != "" || getenv("INVOCATION_ID") != "" {
		accounts, err := db.Accounts(ctx, "")
		if err == nil && len(accounts) == 0 {
			const text = "there is no account yet. Its API token would stay in this log, so it is not made here: " +
				"%s account create NAME --scope '*' makes one\n"
			fmt.Fprintf(stdout, text, s.muster())
		}
		return err
	}
	token, made, err := account.First(ctx, db, time.Now())
	if err != nil || !made {
		return err
	}
	fmt.Fprintf(stdout, "account operator, API token, shown this once: %s\n", token.Reveal())
	return nil
}
