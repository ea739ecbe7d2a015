package live

import (
	"context"
	"time"

	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/tty"
)

// View is what a command shows. Its methods are called by one goroutine.
type View interface {
	Take(News)
	Press(tty.Key) Wish
	Answered(error) // to a wish for a filter; nil: it holds from now on
	Frame(tty.Size) []string
}

// Wish is what a person asks for with a key: another filter, or the end.
type Wish struct {
	Quit   bool
	Filter *Filter // nil: as it is
}

const (
	keyPace   = 40 * time.Millisecond // the least time between two frames while keys are pressed
	agePace   = time.Second           // the most time between two frames: ages grow
	UsualPace = time.Second           // the least time between two frames of what the gateway tells
)

// show is a View on a terminal.
type show struct {
	session  *cli.Session
	terminal *tty.Terminal
	view     View
	pace     time.Duration

	news    chan News // of the filter that holds now
	stop    context.CancelFunc
	checked chan check
	drawn   time.Time
	next    time.Time // when the next frame is due
	due     *time.Timer
}

// check is what the gateway says to a filter.
type check struct {
	filter Filter
	err    error
}

// Show shows a view on the session's terminal until a person quits, ctx ends, or the terminal is gone. The terminal is as before then.
func Show(ctx context.Context, s *cli.Session, f Filter, pace time.Duration, view View) error {
	terminal, err := tty.Open(s.Terminal())
	if err != nil {
		return err
	}
	defer terminal.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &show{session: s, terminal: terminal, view: view, pace: pace, checked: make(chan check), due: time.NewTimer(0)}
	defer w.due.Stop()
	w.follow(ctx, f)
	return w.run(ctx)
}

// follow begins to hear of the nodes of a filter, and of no others.
func (w *show) follow(ctx context.Context, f Filter) {
	if w.stop != nil {
		w.stop()
	}
	ctx, w.stop = context.WithCancel(ctx)
	news := make(chan News)
	w.news = news
	go func() {
		defer w.terminal.Guard()
		_ = Follow(ctx, w.session, f, func(n News) error { // its error is that of ctx
			select {
			case news <- n:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
}

func (w *show) run(ctx context.Context) error {
	defer func() { w.stop() }()
	for {
		select {
		case e := <-w.terminal.Events():
			if e.End != nil {
				return e.End
			}
			if e.Key != 0 && w.press(ctx, e.Key) {
				return nil
			}
			w.within(keyPace)
		case n := <-w.news:
			w.view.Take(n)
			w.within(w.pace)
		case done := <-w.checked:
			w.view.Answered(done.err)
			if done.err == nil {
				w.follow(ctx, done.filter)
			}
			w.within(keyPace)
		case <-w.due.C:
			if err := w.draw(); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// press tells whether the person quits.
func (w *show) press(ctx context.Context, key tty.Key) bool {
	wish := w.view.Press(key)
	if wish.Filter != nil {
		go w.check(ctx, *wish.Filter)
	}
	return wish.Quit
}

// check asks the gateway about a filter, while the picture goes on.
func (w *show) check(ctx context.Context, f Filter) {
	defer w.terminal.Guard()
	err := f.Check(ctx, w.session)
	select {
	case w.checked <- check{f, err}:
	case <-ctx.Done():
	}
}

// within has the next frame drawn so long after the last one at most, or now where that is over.
func (w *show) within(d time.Duration) {
	if at := w.drawn.Add(d); at.Before(w.next) {
		w.plan(at)
	}
}

func (w *show) plan(at time.Time) {
	w.next = at
	w.due.Reset(max(time.Until(at), 0))
}

func (w *show) draw() error {
	err := w.terminal.Draw(w.view.Frame(w.terminal.Size()))
	w.drawn = time.Now()
	w.plan(w.drawn.Add(max(w.pace, agePace)))
	return err
}
