package release

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/client"
	"muster/gateway/internal/paste"
)

// releasePush uploads what the registry does not have yet, and makes it a release.
func releasePush(ctx context.Context, s *cli.Session, q api.NewRelease) error {
	if q.Version == "" {
		return cli.Usagef("write muster release push "+paste.Line(s.Words...)+" --version 0.4.0", "muster release push: which version is it?")
	}
	at, err := created(s.Getenv)
	if err != nil {
		return err
	}
	programs, err := find(s.Words)
	if err != nil {
		return err
	}
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	b := pack(programs, q.Version, at)
	if err := upload(ctx, s, c, b); err != nil {
		return err
	}
	q.Digest = b.digest
	return register(ctx, s, q)
}

// releaseAdd makes a release of what another tool has pushed.
func releaseAdd(ctx context.Context, s *cli.Session, q api.NewRelease) error {
	q.Digest = s.Words[0]
	return register(ctx, s, q)
}

// register records a release. If a channel is named it points at it, which is asked for before.
func register(ctx context.Context, s *cli.Session, q api.NewRelease) error {
	if q.Channel != "" {
		deed := "point the channel " + q.Channel + " at " + q.Digest
		if err := s.Agree(deed, deed); err != nil {
			return err
		}
	}
	return cli.Show(ctx, s, http.MethodPost, api.PathReleases, q, func(r api.Release) {
		s.Printf("%s\n", r.Digest)
		told := fmt.Sprintf("Release %s of %s is on record.\n", r.Version, platforms(r))
		if q.Channel != "" {
			told += fmt.Sprintf("The channel %s points at it: muster release status --channel %s --watch shows how it goes.\n", q.Channel, q.Channel)
		} else {
			told += fmt.Sprintf("Let nodes have it: muster release promote %s --channel %s\n", r.Digest, wire.DefaultChannel)
		}
		s.Say(told) // a script may read the result alone
	})
}

// upload brings the blobs first: the registry refuses a manifest whose blobs it does not have.
func upload(ctx context.Context, s *cli.Session, c *client.Client, b bundle) error {
	if err := put(ctx, s, c, "the config", digestOf([]byte(emptyConfig)), int64(len(emptyConfig)), emptyFile); err != nil {
		return err
	}
	for _, p := range b.programs {
		if err := put(ctx, s, c, p.platform(), p.digest, p.size, func() (io.ReadCloser, error) { return os.Open(p.file) }); err != nil {
			return err
		}
		if err := c.PutManifest(ctx, wire.AgentRepository, digestOf(p.manifest), wire.MediaManifest, p.manifest); err != nil {
			return err
		}
	}
	return c.PutManifest(ctx, wire.AgentRepository, b.digest, wire.MediaIndex, b.index)
}

func emptyFile() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader([]byte(emptyConfig))), nil
}

// put uploads one blob, unless it is there already.
func put(ctx context.Context, s *cli.Session, c *client.Client, name, digest string, size int64, open func() (io.ReadCloser, error)) error {
	there, err := c.HasBlob(ctx, wire.AgentRepository, digest)
	if err != nil || there {
		return err
	}
	from, err := open()
	if err != nil {
		return err
	}
	defer from.Close()
	m := &meter{Reader: from, shown: s.Progress(name, size, 0)}
	defer m.shown.Clear()
	if err := c.PutBlob(ctx, wire.AgentRepository, digest, size, m); err != nil {
		return fmt.Errorf("upload %s: %w", name, err)
	}
	return nil
}

// meter counts what is read.
type meter struct {
	io.Reader
	shown *screen.Progress
	sent  int64
}

func (m *meter) Read(into []byte) (int, error) {
	n, err := m.Reader.Read(into)
	m.sent += int64(n)
	m.shown.At(m.sent)
	return n, err
}

// bytesOf is a size as people say it.
func bytesOf(n int64) string {
	const unit = 1 << 20
	if n < unit {
		return screen.Plural(int(n), "byte")
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/unit)
}
