package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"

	"muster/agent/flags"
	"muster/agent/wire"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/client"
)

// ErrReported ends a command whose failures were printed as they came.
var ErrReported = errors.New("reported")

// EndedWith ends a command with an exit code of its own: that of a program that it ran elsewhere.
type EndedWith struct {
	Code int
	Err  error // printed first; nil: all was said
}

func (e *EndedWith) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

func (e *EndedWith) Unwrap() error { return e.Err }

// Usagef returns the error of a command that was used wrongly, with a hint at the right use.
func Usagef(hint, format string, args ...any) error {
	return &flags.Error{Message: fmt.Sprintf(format, args...), Hint: hint}
}

// Hinted returns an error with a hint at what to do about it.
func Hinted(message, hint string) error { return &wire.ErrorDetail{Message: message, Hint: hint} }

// Code returns the code of the gateway's refusal; empty: err is something else.
func Code(err error) string {
	var refusal *wire.ErrorDetail
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	return ""
}

// AsUsage turns the gateway's refusal of what a person wrote into an error of use. Other errors stay.
func AsUsage(err error) error {
	var refusal *wire.ErrorDetail
	if errors.As(err, &refusal) {
		return Usagef(refusal.Hint, "%s", refusal.Message)
	}
	return err
}

// Report prints what went wrong and what to do about it. The commands in a hint can be pasted. An indented line of a hint is one command:
// it is not broken.
func (s *Session) Report(message, hint string) {
	columns := s.Screen()
	fmt.Fprintln(s.Stderr, screen.Fold("muster: "+screen.Printable(message), columns, "  "))
	before := "  hint: "
	for line := range strings.Lines(s.paste(hint)) {
		line = before + screen.Printable(strings.TrimSuffix(line, "\n"))
		before = "        "
		if !strings.HasPrefix(line, before+" ") {
			line = screen.Fold(line, columns, before)
		}
		fmt.Fprintln(s.Stderr, line)
	}
}

// Trouble prints what went wrong with one of several things. The command goes on with the others, and then ends with ErrReported.
func (s *Session) Trouble(ctx context.Context, name string, err error) {
	message, hint := s.Explain(ctx, err)
	s.Report(name+": "+message, hint)
}

// Explain returns the words for an error, and the next step if there is one.
func (s *Session) Explain(ctx context.Context, err error) (message, hint string) {
	var detail *wire.ErrorDetail
	var socket *client.SocketError
	var usage *flags.Error
	var request *url.Error
	switch {
	case errors.As(err, &usage):
		return usage.Message, usage.Hint
	case errors.As(err, &detail):
		return detail.Message, detail.Hint
	case errors.As(err, &socket) && socket.Nobody():
		return err.Error(), s.startHint(ctx, filepath.Dir(socket.Path))
	case errors.As(err, &socket) && socket.Refused():
		return err.Error(), s.Sudo(filepath.Dir(socket.Path)) + "; or reach the gateway by --url, with an API token"
	case errors.Is(err, fs.ErrPermission) && s.files != "" && s.Machine.UID() != 0:
		return err.Error(), s.Sudo(s.files)
	case errors.As(err, &request) && cutOff(request.Err):
		return "the gateway ended the connection before it answered: whether it did this is not known",
			"it stops, or another one takes its place; see what is there in some seconds, and ask again"
	}
	return err.Error(), ""
}

func cutOff(err error) bool {
	const idle = "http: server closed idle connection" // net/http has no name for it
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || err.Error() == idle
}
