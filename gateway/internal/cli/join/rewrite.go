package join

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

const (
	rewritePause = 3 * time.Second // between two looks at machines that start again
	rewriteTime  = time.Hour       // the gateway gives up before
)

// isAsked is true for a machine that starts again already.
func isAsked(i providers.Instance) bool {
	return i.Rejoin != nil && i.Rejoin.State == providers.RejoinAsked
}

// showCosts says of each machine what it loses when its company starts it again, or that its company cannot.
func showCosts(s *cli.Session, all []newcomer, isRewritten bool) {
	if !isRewritten {
		return
	}
	const first = "Where ssh does not get onto a machine, its company starts it again with a new start script:"
	fmt.Fprintln(s.Stdout, "\n"+screen.Fold(first, s.Screen(), ""))
	for _, n := range all {
		costs := n.Costs
		switch {
		case n.isAsked:
			costs = "it does so already"
		case costs == "":
			costs = "not this one: its company cannot do that"
		}
		fmt.Fprintln(s.Stdout, screen.Fold(screen.Printable("  "+n.Instance+": "+costs), s.Screen(), "    "))
	}
}

// rewrite has companies start machines again with a new start script, and waits until each is heard or given up. The gateway does the work,
// and goes on where nobody waits.
func rewrite(ctx context.Context, s *cli.Session, all []newcomer) error {
	w := &waiting{Session: s, said: map[string]string{}}
	for _, n := range all {
		if n.isAsked || w.ask(ctx, n) {
			w.left = append(w.left, n)
		}
	}
	_, err := s.Poll(ctx, rewritePause, rewriteTime, func() (bool, error) {
		w.look(ctx)
		return len(w.left) == 0, ctx.Err()
	})
	switch {
	case ctx.Err() != nil:
		line := []string{"muster provider onboard"}
		for _, n := range w.left {
			line = append(line, n.Instance)
		}
		fmt.Fprint(s.Stderr, "\n"+s.PastedText("It goes on. "+strings.Join(line, " ")+" shows how far it is."))
		return &cli.EndedWith{Code: 130}
	case err == nil && (w.failed || len(w.left) > 0):
		err = cli.ErrReported
	}
	return err
}

// waiting is for machines that start again.
type waiting struct {
	*cli.Session
	left   []newcomer
	said   map[string]string // of a machine, last
	failed bool
}

// ask asks the gateway, and again where no answer came: the same again is no other one.
func (w *waiting) ask(ctx context.Context, n newcomer) bool {
	send := func() error {
		_, err := cli.Send[providers.Instance](ctx, w.Session, http.MethodPost, n.path, providers.InstanceAct{Act: providers.ActRejoin})
		return err
	}
	err := send()
	if err != nil && !errors.As(err, new(*wire.ErrorDetail)) && w.Pause(ctx, time.Second) == nil {
		err = send()
	}
	if err != nil {
		w.failed = true
		w.Trouble(ctx, n.Instance, err)
	}
	return err == nil
}

// look looks at all that are left, tells each change once, and drops those that are done.
func (w *waiting) look(ctx context.Context) {
	var left []newcomer
	for _, n := range w.left {
		i, err := cli.Get[providers.Instance](ctx, w.Session, n.path, nil)
		var refusal *wire.ErrorDetail
		switch isRefused := errors.As(err, &refusal) && refusal.Code != wire.CodeUnavailable; {
		case ctx.Err() != nil:
			left = append(left, n)
		case isRefused:
			w.failed = true
			w.Trouble(ctx, n.Instance, err)
		case err != nil:
			w.tell(n, "the gateway does not answer now ("+err.Error()+"); it goes on when it is back")
			left = append(left, n)
		case i.Rejoin == nil || isAsked(i):
			text := "it starts again; it is " + i.State + " there"
			if i.Rejoin != nil && i.Rejoin.Why != "" {
				text += "; " + i.Rejoin.Why
			}
			w.tell(n, text)
			left = append(left, n)
		case i.Rejoin.State == providers.RejoinJoined:
			w.Printf("%s\n", n.Instance+": joined as "+i.Node)
		default:
			w.failed = true
			w.Report(n.Instance+": it did not join: "+i.Rejoin.Why, "by hand: "+n.Command+"; muster provider destroy "+n.Instance+" ends it")
		}
	}
	w.left = left
}

func (w *waiting) tell(n newcomer, text string) {
	if w.said[n.Instance] != text {
		w.said[n.Instance] = text
		w.Say(screen.Printable(n.Instance + ": " + text))
	}
}
