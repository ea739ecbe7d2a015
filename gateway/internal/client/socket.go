package client

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// SocketError says that a gateway's socket was not reached. What to do about it depends on the machine, which this package does
// not know.
type SocketError struct {
	Path  string
	Owner string // the user who may open it; empty: this user may not look
	Err   error
}

func (e *SocketError) Error() string {
	switch {
	case e.Nobody():
		return "no gateway answers at " + e.Path
	case e.Refused() && e.Owner != "":
		return "this user may not open " + e.Path + ", which belongs to user " + e.Owner
	case e.Refused():
		return "this user may not open " + e.Path
	case errors.Is(e.Err, syscall.EINVAL):
		return "the path " + e.Path + " is too long for a socket; give the data directory by a shorter path, such as a relative one"
	}
	return "the gateway's socket " + e.Path + ": " + e.Err.Error()
}

func (e *SocketError) Unwrap() error { return e.Err }

// Nobody reports whether no gateway serves there.
func (e *SocketError) Nobody() bool {
	return errors.Is(e.Err, fs.ErrNotExist) || errors.Is(e.Err, syscall.ECONNREFUSED)
}

// Refused reports whether the file mode keeps this user out.
func (e *SocketError) Refused() bool { return errors.Is(e.Err, fs.ErrPermission) }

// Socket connects through a gateway's socket. The host in a URL does not matter.
func overSocket(path string) *http.Client {
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: keptConnections,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, "unix", path)
			if err != nil && ctx.Err() == nil {
				err = newSocketError(err, path)
			}
			return c, err
		}}
	return plainClient(transport)
}

// ExplainSocket leaves out of an error on the way to a socket the URL that stands for it.
func explainSocket(err error) error {
	if away := (*SocketError)(nil); errors.As(err, &away) {
		return away
	}
	return err
}

func newSocketError(err error, socket string) *SocketError {
	e := &SocketError{Path: socket, Err: err}
	if e.Refused() {
		e.Owner = owner(socket)
	}
	return e
}

// owner is the user of the nearest directory on a path that can be looked at.
func owner(path string) string {
	for ; ; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err != nil && path != filepath.Dir(path) {
			continue
		}
		if err != nil {
			return ""
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return ""
		}
		name := strconv.Itoa(int(stat.Uid))
		if u, err := user.LookupId(name); err == nil {
			name = u.Username
		}
		return name
	}
}
