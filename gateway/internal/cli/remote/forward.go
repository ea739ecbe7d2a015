package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"muster/agent/wire"
	"muster/gateway/internal/cli"
)

// opening is one port of a node, and where it is reached here.
type opening struct {
	local string // address and port
	port  int
}

const portForm = "write PORT, LOCAL:PORT or ADDRESS:LOCAL:PORT, such as 8888, 8022:22 or 0.0.0.0:8080:80"

// readOpening reads [LOCAL:]PORT. An address of IPv6 stands in brackets.
func readOpening(text string) (opening, error) {
	local, last, given := cutLast(text)
	if !given {
		local, last = text, text
	}
	port, err := readPort(last, 1)
	if err != nil {
		return opening{}, err
	}
	host, number, addressed := cutLast(local)
	if !addressed {
		host, number = "127.0.0.1", local
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	here, err := readPort(number, 0)
	if err != nil {
		return opening{}, err
	}
	if host == "" {
		return opening{}, cli.Usagef("0.0.0.0 means every address of this machine", "%q has an empty address", text)
	}
	return opening{local: net.JoinHostPort(host, strconv.Itoa(here)), port: port}, nil
}

func cutLast(text string) (before, after string, found bool) {
	at := strings.LastIndexByte(text, ':')
	if at < 0 || strings.HasSuffix(text, "]") {
		return "", "", false
	}
	return text[:at], text[at+1:], true
}

func readPort(text string, least int) (int, error) {
	port, err := strconv.Atoi(text)
	if err != nil || port < least || port > 65535 {
		return 0, cli.Usagef(portForm, "%q is not a port", text)
	}
	return port, nil
}

func nodeForward(ctx context.Context, s *cli.Session) error {
	var all []*forward
	defer func() {
		for _, f := range all {
			f.close()
		}
	}()
	for _, text := range s.Words[1:] {
		o, err := readOpening(text)
		if err != nil {
			return err
		}
		f, err := startForward(ctx, s, s.Words[0], o)
		if err != nil {
			return err
		}
		all = append(all, f)
	}
	over := make(chan error, len(all))
	for _, f := range all {
		go func() { over <- f.serve(ctx) }()
	}
	select {
	case err := <-over:
		return err
	case <-ctx.Done(): // ^C is how it ends
		return nil
	}
}

// forward is one opening at work.
type forward struct {
	opening
	*carrier
	listener net.Listener
	running  sync.WaitGroup
}

// startForward takes the port here before it asks the node for anything.
func startForward(ctx context.Context, s *cli.Session, node string, o opening) (*forward, error) {
	listener, err := net.Listen("tcp", o.local)
	if err != nil {
		return nil, explainListen(err, o)
	}
	params := wire.ForwardParams{Port: o.port}
	if err := s.Flags.Into(&params); err != nil {
		listener.Close()
		return nil, err
	}
	v, err := open(ctx, s, node, wire.SessionForward, &params)
	if err != nil {
		listener.Close()
		return nil, err
	}
	there := v.attached.Node
	if params.Host != "" {
		there += ", " + params.Host
	}
	s.Printf("%s leads to port %d of %s\n", listener.Addr(), o.port, there)
	return &forward{opening: o, carrier: newCarrier(v), listener: listener}, nil
}

func explainListen(err error, o opening) error {
	other := fmt.Sprintf("another port here does it too: 0:%d takes one that is free", o.port)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return cli.Hinted(o.local+" is in use on this machine", other)
	case errors.Is(err, syscall.EACCES):
		return cli.Hinted("this user may not listen on "+o.local, other)
	}
	return fmt.Errorf("listen on %s: %w", o.local, err)
}

// serve carries connections until the session or the listener ends.
func (f *forward) serve(ctx context.Context) error {
	go func() {
		<-f.done
		f.listener.Close()
	}()
	for {
		conn, err := f.listener.Accept()
		select {
		case <-f.done:
			if err == nil {
				conn.Close()
			}
			return f.reason()
		default:
		}
		if err != nil {
			return err
		}
		f.running.Go(func() {
			err := f.connect(ctx, conn.(*net.TCPConn))
			var over *overError // serve says that, once
			if err != nil && !errors.As(err, &over) && !errors.Is(err, context.Canceled) {
				f.say("port " + strconv.Itoa(f.port) + ": " + err.Error())
			}
		})
	}
}

func (f *forward) close() {
	f.listener.Close()
	f.passage.close()
	f.breakAll()
	f.running.Wait()
}
