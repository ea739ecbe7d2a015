package cli

import (
	"context"
	"errors"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/cli/screen"
)

// Poll calls look again and again, with a pause between, until look says that it is done. It returns false if the time is up first.
func (s *Session) Poll(ctx context.Context, every, timeout time.Duration, look func() (done bool, err error)) (bool, error) {
	end := s.Now().Add(timeout)
	for {
		done, err := look()
		if done || err != nil {
			return done, err
		}
		if !s.Now().Before(end) {
			return false, nil
		}
		if err := s.Pause(ctx, every); err != nil {
			return false, err
		}
	}
}

// Await gets a path again and again until done says so, and returns the last answer; now is the first one. It goes on through trouble that
// may pass, and says once what the trouble is.
func Await[T any](ctx context.Context, s *Session, path string, every time.Duration, now T, done func(T) bool) (T, error) {
	for !done(now) {
		if err := s.Pause(ctx, every); err != nil {
			return now, err
		}
		next, err := Through(ctx, s, every, s.Say, func() (T, error) { return Get[T](ctx, s, path, nil) })
		if err != nil {
			return now, err
		}
		now = next
	}
	return now, nil
}

// Through calls ask again and again until there is no trouble that may pass, and says once what the trouble is.
func Through[T any](ctx context.Context, s *Session, every time.Duration, say func(string), ask func() (T, error)) (T, error) {
	away := ""
	for {
		answer, err := ask()
		if err == nil || ctx.Err() != nil || !Passing(err) {
			return answer, err
		}
		if err.Error() != away {
			away = err.Error()
			say("the gateway does not answer now (" + screen.Printable(away) + "); it goes on when it is back")
		}
		if err := s.Pause(ctx, every); err != nil {
			return answer, err
		}
	}
}

// after calls do after d in another goroutine, unless stop is called before. stop returns when do has ended or will never begin, so what do
// writes does not come between later lines.
func after(d time.Duration, do func()) (stop func()) {
	ended := make(chan struct{})
	timer := time.AfterFunc(d, func() {
		defer close(ended)
		do()
	})
	return sync.OnceFunc(func() {
		if !timer.Stop() {
			<-ended
		}
	})
}

// Passing reports whether trouble may pass by itself: it is on the way or in the gateway. A refusal does not pass.
func Passing(err error) bool {
	switch Code(err) {
	case "", wire.CodeUnavailable, wire.CodeInternal, wire.CodeTooManyRequests:
		return true
	}
	return false
}

// Changes returns a function that prints a line about a thing, unless it is the same line that was last printed about it.
func (s *Session) Changes() func(thing, line string) {
	said := map[string]string{}
	return func(thing, line string) {
		if said[thing] != line {
			said[thing] = line
			s.Say(screen.Printable(line))
		}
	}
}

// Left says how a thing goes on after the person stopped waiting for it. The error has the exit code of a ^C.
func (s *Session) Left(text string) error {
	s.Say("\n" + text)
	return &EndedWith{Code: 130}
}

// SendSurely does what Send does, for a request that may come twice: it sends the request again if no answer came.
func SendSurely[T any](ctx context.Context, s *Session, method, path string, body any) (T, error) {
	answer, err := Send[T](ctx, s, method, path, body)
	if err == nil || errors.As(err, new(*wire.ErrorDetail)) || s.Pause(ctx, time.Second) != nil {
		return answer, err
	}
	return Send[T](ctx, s, method, path, body)
}

// AtOnce calls do for each number below many, up to most of them at the same time, and waits for all.
func AtOnce(many, most int, do func(int)) {
	places := make(chan struct{}, most)
	var all sync.WaitGroup
	for i := range many {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			do(i)
		})
	}
	all.Wait()
}
