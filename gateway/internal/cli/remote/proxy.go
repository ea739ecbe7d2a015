package remote

import (
	"context"
	"errors"
	"io"

	"muster/agent/wire"
	"muster/gateway/internal/cli"
)

func nodeProxy(ctx context.Context, s *cli.Session) error {
	port, err := readPort(s.Words[1], 1)
	if err != nil {
		return err
	}
	params := wire.ForwardParams{Port: port}
	if err := s.Flags.Into(&params); err != nil {
		return err
	}
	v, err := open(ctx, s, s.Words[0], wire.SessionForward, &params)
	if err != nil {
		return err
	}
	defer v.close()
	c := newCarrier(v)
	err = c.connect(ctx, newStdio(s.Stdin, s.Stdout))
	var unreached *unreachedError
	if errors.As(err, &unreached) && params.Host == "" { // ssh shows what a ProxyCommand says
		err = cli.Hinted(unreached.why,
			"if the node has no sshd: muster ssh "+s.Words[0]+" opens a shell without one, and muster cp copies files")
	}
	return interrupted(ctx, err)
}

// stdio makes one connection of standard input and output.
type stdio struct {
	*io.PipeReader
	in  *io.PipeWriter
	out io.Writer
}

func newStdio(in io.Reader, out io.Writer) *stdio {
	reader, writer := io.Pipe()
	go func() {
		_, err := io.Copy(writer, in)
		writer.CloseWithError(err)
	}()
	return &stdio{PipeReader: reader, in: writer, out: out}
}

func (c *stdio) Write(p []byte) (int, error) { return c.out.Write(p) }

// CloseWrite is called when the node's side has sent its last byte. Nobody waits for standard input then: programs such as ssh do not end
// it.
func (c *stdio) CloseWrite() error { return c.in.Close() }
