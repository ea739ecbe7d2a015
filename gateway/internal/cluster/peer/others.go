package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"muster/gateway/internal/artifact"
)

// notesTime is how long a gateway that stands by may take to keep minutes of the history.
const notesTime = 3 * time.Second

// restTime is how long a gateway that took no minutes is left alone: the others must not wait for it each time.
const restTime = 20 * time.Second

// Alone says since when no gateway stands by; alone is false if one does.
func (s *Server) Alone(now time.Time) (since time.Time, alone bool) {
	some := len(s.Standing()) > 0
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case some:
		s.alone = time.Time{}
	case s.alone.IsZero():
		s.alone = now
	}
	return s.alone, !s.alone.IsZero()
}

// Copy has one of the standby gateways keep a copy of a blob. If none stands by, it does nothing.
func (s *Server) Copy(ctx context.Context, blob artifact.Info, content *io.SectionReader) error {
	_, failed := s.askAny(func(own Identity, to Gateway) error {
		_, err := content.Seek(0, io.SeekStart)
		if err == nil {
			err = Keep(ctx, own, to, blob, content)
		}
		return err
	})
	return failed
}

// NoteAll sends minutes of the history to all standby gateways. It is not for concurrent use.
func (s *Server) NoteAll(ctx context.Context, minutes any) (failed error) {
	for _, one := range s.Standing() {
		if time.Since(s.rests[one.ID]) < restTime {
			failed = errors.Join(failed, fmt.Errorf("%s took none some seconds ago", one.ID))
			continue
		}
		err := s.ask(one, func(own Identity, to Gateway) error {
			ctx, cancel := context.WithTimeout(ctx, notesTime)
			defer cancel()
			return Note(ctx, own, to, minutes)
		})
		if err != nil {
			s.rests[one.ID] = time.Now()
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// FetchAny returns a blob that one of the standby gateways has.
func (s *Server) FetchAny(ctx context.Context, blob artifact.Info) (content io.ReadCloser, err error) {
	some, failed := s.askAny(func(own Identity, from Gateway) (err error) {
		content, err = Fetch(ctx, own, from, blob)
		return err
	})
	if !some {
		failed = errors.New("no gateway stands by")
	}
	return content, failed
}

// askAny asks the gateways that stand by, until one has done what it was asked. some: there is one.
func (s *Server) askAny(what func(own Identity, of Gateway) error) (some bool, failed error) {
	for _, one := range s.Standing() {
		err := s.ask(one, what)
		if err == nil {
			return true, nil
		}
		some = true
		failed = errors.Join(failed, err)
	}
	return some, failed
}

// ask says which gateway did not do what it was asked.
func (s *Server) ask(one Standing, what func(own Identity, of Gateway) error) error {
	own, err := s.identity()
	if err == nil {
		err = what(own, Gateway{ID: one.ID, URL: one.URL})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", one.ID, err)
	}
	return nil
}
