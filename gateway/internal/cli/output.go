package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"muster/gateway/api"
	"muster/gateway/internal/cli/screen"
)

// Forms of --output.
const (
	FormTable = "table"
	FormWide  = "wide"
	FormJSON  = "json"
)

// form is what --output says. The environment may name a form that another command has: then it is the usual one.
func (c *Command) form(given Flags) (string, error) {
	forms := c.Forms
	if forms == nil {
		forms = []string{FormTable, FormWide, FormJSON}
	}
	if !slices.Contains(c.Flags, "output") || !given.Given("output") && !slices.Contains(forms, given.Text("output")) {
		return forms[0], nil
	}
	return given.OneOf("output", forms[0], forms...)
}

// List makes a list for the command's output.
func (s *Session) List(columns []screen.Column) *screen.List {
	return screen.NewList(s.Stdout, s.Form == FormWide, s.Screen(), columns)
}

// Show sends a request, or gets what the path and a filter q give, and shows the answer: as JSON, or with show.
func Show[T any](ctx context.Context, s *Session, method, path string, q any, show func(T)) error {
	filter, body := any(nil), q
	if method == http.MethodGet {
		filter, body = q, nil
	}
	answer, err := ask[T](ctx, s, method, path, filter, body)
	switch {
	case err != nil:
		return err
	case s.Form == FormJSON:
		return s.WriteJSON(answer)
	}
	show(answer)
	return nil
}

// Drop ends the thing at a path, and prints said. If deed is set, it asks the person first; deed is what is done.
func (s *Session) Drop(ctx context.Context, path string, filter any, deed, said string) error {
	if deed != "" {
		if err := s.Agree(deed, deed); err != nil {
			return err
		}
	}
	if err := Drop(ctx, s, path, filter); err != nil {
		return err
	}
	fmt.Fprintln(s.Stdout, screen.Printable(said))
	return nil
}

// ShowList lists things: it gets what the path and the filter give, and prints it as JSON or in rows. filter is a pointer, whose fields the
// flags set; nil: there is none.
func ShowList[T any](ctx context.Context, s *Session, path string, filter any, columns []screen.Column, rows func(T) [][]string) error {
	if filter != nil {
		if err := s.Flags.Into(filter); err != nil {
			return err
		}
	}
	return Show(ctx, s, http.MethodGet, path, filter, func(answer T) {
		_ = s.List(columns).Write(rows(answer)) // the session remembers what Stdout refused
	})
}

// Rows makes a row of each thing.
func Rows[T any](things []T, row func(T) []string) [][]string {
	rows := make([][]string, 0, len(things))
	for _, thing := range things {
		rows = append(rows, row(thing))
	}
	return rows
}

// WriteJSON prints a value in one line of JSON.
func (s *Session) WriteJSON(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = s.Stdout.Write(append(screen.PrintableJSON(raw), '\n'))
	return err
}

// Print writes a text unchanged, for a file or a shell.
func (s *Session) Print(text string) error {
	_, err := fmt.Fprint(s.Stdout, text)
	return err
}

// Printf prints a text for a person. The commands in it can be pasted. A text in the arguments is made safe to show: it begins no line of
// its own, which could look like a line of muster. A text of several lines goes through PastedText instead.
func (s *Session) Printf(format string, args ...any) {
	for i, arg := range args {
		if text, is := arg.(string); is {
			args[i] = screen.Printable(text)
		}
	}
	fmt.Fprint(s.Stdout, s.PastedText(fmt.Sprintf(format, args...)))
}

// StatusLine returns the line at the bottom of the terminal that errors go to.
func (s *Session) StatusLine() *screen.StatusLine {
	return screen.NewStatusLine(s.Stderr, screen.Columns(s.Stderr, s.Getenv("COLUMNS")))
}

// Progress begins to show how far a copy is, as screen.NewProgress says.
func (s *Session) Progress(name string, size, first int64) *screen.Progress {
	return screen.NewProgress(s.StatusLine(), s.Now, name, size, first)
}

// Say prints a text beside the command's output, which a script may read. The commands in it can be pasted. It may have several lines, so
// what comes from elsewhere goes through screen.Printable first.
func (s *Session) Say(text string) { fmt.Fprint(s.Stderr, s.PastedText(text)) }

// ShowEach shows each of the things that the command names, as ShowTargets does. If only one is named, its error is the command's.
func ShowEach[T any](ctx context.Context, s *Session, path string, show func(T)) error {
	if len(s.Words) == 1 {
		return Show(ctx, s, http.MethodGet, api.At(path, s.Words[0]), nil, show)
	}
	var targets []Target
	for _, name := range s.Words {
		targets = append(targets, Target{ID: name, Name: name})
	}
	return ShowTargets(ctx, s, path, targets, show)
}

// ShowTargets gets each thing from the path, and shows it: as JSON, or with show, with an empty line between two. If a thing is not found,
// it shows the others, and the error is ErrReported.
func ShowTargets[T any](ctx context.Context, s *Session, path string, targets []Target, show func(T)) error {
	between := ""
	return s.OnEach(ctx, targets, func(t Target) (string, error) {
		return "", Show(ctx, s, http.MethodGet, api.At(path, t.ID), nil, func(one T) {
			fmt.Fprint(s.Stdout, between)
			between = "\n"
			show(one)
		})
	})
}

// ShowTry tries a receiver or a sink by a path, and shows how that went: as JSON, or in words. A try that failed is an error.
func (s *Session) ShowTry(ctx context.Context, path string, words func(api.AlertTest) string) error {
	t, err := Send[api.AlertTest](ctx, s, http.MethodPost, path, nil)
	if err == nil && s.Form == FormJSON {
		err = s.WriteJSON(t)
	}
	switch {
	case err != nil:
		return err
	case !t.Delivered:
		return Hinted(screen.Printable(t.Error), screen.Printable(t.Next))
	case s.Form != FormJSON:
		fmt.Fprintln(s.Stdout, words(t))
	}
	return nil
}
