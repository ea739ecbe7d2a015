package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"muster/gateway/api"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/client"
)

// Forms of --output.
const (
	formatTable = "table"
	FormatWide  = "wide"
	FormatJSON  = "json"
)

// Format is what --output says.
func (s *Session) Format() (string, error) {
	return s.Flags.OneOf("output", formatTable, formatTable, FormatWide, FormatJSON)
}

// Begin is how commands that print rows start: the form first, since a wrong one needs no gateway to be refused.
func (s *Session) Begin(ctx context.Context) (c *client.Client, format string, err error) {
	if format, err = s.Format(); err != nil {
		return nil, "", err
	}
	c, err = s.Client(ctx)
	return c, format, err
}

// List makes a list for the command's output.
func (s *Session) List(format string, columns []screen.Column) *screen.List {
	return screen.NewList(s.Stdout, format, s.Screen(), columns)
}

// ShowList is a command that lists something: it gets what the path and the filter give, and prints it as JSON or in rows. The flags set
// the filter, which is a pointer; nil: there is none.
func ShowList[T any](ctx context.Context, s *Session, path string, filter any, columns []screen.Column, rows func(T) [][]string) error {
	if filter != nil {
		if err := s.Flags.Into(filter); err != nil {
			return err
		}
	}
	c, format, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	answer, err := client.Get[T](ctx, c, path, filter)
	if err != nil {
		return err
	}
	if format == FormatJSON {
		return s.WriteJSON(answer)
	}
	return s.List(format, columns).Write(rows(answer))
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

// Print writes a text as it is: one that goes into a file or a shell.
func (s *Session) Print(text string) error {
	_, err := fmt.Fprint(s.Stdout, text)
	return err
}

// Printf prints a text for a person. The commands in it can be pasted.
func (s *Session) Printf(format string, args ...any) {
	fmt.Fprint(s.Stdout, s.PastedText(fmt.Sprintf(format, args...)))
}

// ShowEach gets each of the things that the command names from the path, and shows it: as JSON, or with show. Two have an empty line
// between them. If one of several is not found, the others are shown, and the error is ErrReported.
func ShowEach[T any](ctx context.Context, s *Session, path string, show func(T)) error {
	c, format, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	failed := false
	for i, name := range s.Words {
		one, err := client.Get[T](ctx, c, api.At(path, name), nil)
		switch {
		case err != nil && len(s.Words) == 1:
			return err
		case err != nil:
			s.Trouble(ctx, name, err)
			failed = true
			continue
		case format == FormatJSON:
			if err := s.WriteJSON(one); err != nil {
				return err
			}
			continue
		case i > 0:
			fmt.Fprintln(s.Stdout)
		}
		show(one)
	}
	if failed {
		return ErrReported
	}
	return nil
}

// ShowTry shows how the try of a receiver or a sink went: as JSON, or with text where it was delivered. A try that failed is an error.
func (s *Session) ShowTry(format string, t api.AlertTest, text string) error {
	if format == FormatJSON {
		if err := s.WriteJSON(t); err != nil {
			return err
		}
	}
	if !t.Delivered {
		return Hinted(screen.Printable(t.Error), screen.Printable(t.Next))
	}
	if format != FormatJSON {
		fmt.Fprintln(s.Stdout, text)
	}
	return nil
}
