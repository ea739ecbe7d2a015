package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"muster/agent/flags"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/client"
	"muster/gateway/internal/paste"
)

const (
	usualLines    = 200
	followedLines = 10 // that are there already
	mostFollowed  = 16 // nodes at once; the gateway has this bound for each account
	firstPause    = time.Second
	longestPause  = 30 * time.Second
)

func nodeLogs(ctx context.Context, s *cli.Session) error {
	q, err := query(s)
	if err != nil {
		return err
	}
	p, err := newPrinter(s, len(q.Sources) > 1)
	if err != nil {
		return err
	}
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	nodes, _, err := s.Targets(ctx, s.Words)
	if err != nil {
		return err
	}
	if q.Follow && len(nodes) > mostFollowed {
		return cli.Usagef(fmt.Sprintf("name at most %d, or leave -f out", mostFollowed), "%d nodes are too many to follow at once", len(nodes))
	}
	p.several = len(nodes) > 1
	all := make([]*follower, 0, len(nodes))
	for _, n := range nodes {
		all = append(all, &follower{Session: s, client: c, printer: p, node: n, query: q})
	}
	return run(ctx, all, q.Follow)
}

// run reads the logs: one node after the other, or all at once where they are followed.
func run(ctx context.Context, all []*follower, follow bool) error {
	errs := make([]error, len(all))
	most := 1
	if follow {
		most = len(all)
	}
	cli.AtOnce(len(all), most, func(i int) { errs[i] = all[i].read(ctx) })
	if len(all) == 1 {
		return ofProgram(all[0].node.Name, errs[0])
	}
	var failed error
	for i, f := range all {
		if errs[i] == nil {
			continue
		}
		failed = cli.ErrReported
		if !errors.Is(errs[i], cli.ErrReported) {
			f.Trouble(ctx, f.node.Name, errs[i])
		}
	}
	return failed
}

// ofProgram adds to the error of a name that no node has how the output of a program is shown.
func ofProgram(name string, err error) error {
	var refused *wire.ErrorDetail
	if !errors.As(err, &refused) || refused.Code != wire.CodeNotFound {
		return err
	}
	return &wire.ErrorDetail{Code: refused.Code, Message: refused.Message,
		Hint: refused.Hint + "; muster run logs " + paste.Quote(name) + " shows what a program has written"}
}

func query(s *cli.Session) (q api.LogsQuery, err error) {
	var o struct {
		Lines int
		Since string
	}
	if err := s.Flags.Into(&q, &o); err != nil {
		return q, err
	}
	for _, source := range q.Sources {
		if err := wire.CheckLogSource(source); err != nil {
			return q, cli.Usagef("the sources are agent, kernel, boot, unit:NAME and workload:NAME", "there is no source %q", source)
		}
	}
	q.Limit = o.Lines
	if q.Since, err = since(s, o.Since); err != nil {
		return q, err
	}
	if q.Since.IsZero() && q.Limit == 0 {
		q.Limit = usualLines
		if q.Follow {
			q.Limit = followedLines
		}
	}
	return q, nil
}

// since is a time, or so long ago.
func since(s *cli.Session, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	ago, err := flags.ParseDuration(text)
	if err != nil || ago <= 0 {
		return time.Time{}, cli.Usagef("such as 30m, 2h, 7d or 2026-11-23T10:00:00Z",
			"%s has the value %q, which is neither a duration nor a time", s.Flags.Source("since"), text)
	}
	return s.Now().Add(-ago), nil
}

// follower reads the logs of one node over as many answers as that takes.
type follower struct {
	*cli.Session
	client  *client.Client
	printer *printer
	node    cli.Target
	query   api.LogsQuery

	seen  memory
	shown int
	last  wire.LogLine // of the gateway
	begun bool         // the gateway has answered with a line
	told  bool         // that the gateway is away

	answered func() // ends the wait of which a person is told
}

// read shows the log until it ends. A gateway that restarts meanwhile is asked again, from the last line on.
func (f *follower) read(ctx context.Context) error {
	pause := firstPause
	f.answered = f.TellWait(ctx, f.node, f.query.Follow, func(text string) { f.printer.say(f.node.Name, text) })
	defer f.answered()
	for {
		before := f.shown
		err := f.client.NodeLogs(ctx, f.node.ID, f.query, f.show)
		switch {
		case f.query.Follow && ctx.Err() != nil:
			return nil // a person ended it
		case err == nil:
			return f.ended()
		case !f.query.Follow || !f.begun || !cli.Passing(err):
			return err
		case f.shown > before:
			pause = firstPause
		}
		f.tellLost(err)
		if f.Pause(ctx, pause) != nil {
			return nil
		}
		pause = min(2*pause, longestPause)
		f.query.Since = cmp.Or(f.seen.since(), f.query.Since)
		f.query.Limit = 0
		f.seen.again()
	}
}

// tellLost says once that the gateway is away.
func (f *follower) tellLost(err error) {
	if !f.told {
		f.told = true
		f.printer.say(f.node.Name, screen.Printable(err.Error())+"; trying again until the gateway answers or this is ended")
	}
}

func (f *follower) show(l wire.LogLine) error {
	f.begun = true
	f.answered()
	if f.told {
		f.told = false
		f.printer.say(f.node.Name, "the gateway answers again")
	}
	switch {
	case l.Source == wire.LogGateway:
		f.last = l
	case l.Dropped > 0:
		if l.Dropped = f.seen.missing(l); l.Dropped == 0 {
			return nil
		}
	case !f.seen.fresh(l, len(f.query.Sources) > 1):
		return nil
	}
	f.shown++
	return f.printer.line(f.node.Name, l)
}

// ended says how it went. A last word of the gateway about an error is a failure.
func (f *follower) ended() error {
	if f.last.Level == "error" {
		return cli.ErrReported
	}
	if f.shown == 0 {
		f.printer.say(f.node.Name, "no such lines; --since 7d looks further back, --source names another log")
	}
	return nil
}
