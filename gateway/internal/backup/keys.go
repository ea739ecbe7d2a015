package backup

import (
	"context"
	"errors"

	"muster/gateway/internal/authority"
	"muster/gateway/internal/datadir"
)

// InitCA makes the CA in a data directory that has none, and moves the root's key into rootOut if that is set. It returns the root's pin.
func (o Offline) InitCA(ctx context.Context, files datadir.Files, domain, rootOut string) (pin string, err error) {
	err = o.with(ctx, files, domain, func(s *site, a *authority.Authority) error {
		roots := a.Roots()
		pin = authority.Pin(roots[len(roots)-1])
		if rootOut == "" {
			return nil
		}
		if err := a.ExportRoot(ctx, rootOut); err != nil {
			return err
		}
		return s.record(ctx, "ca.root_exported")
	})
	return pin, err
}

// ExportTrust moves the trust key out of the database into a file.
func (o Offline) ExportTrust(ctx context.Context, files datadir.Files, file string) error {
	return o.moveTrust(ctx, files, "trust_key.exported", func(a *authority.Authority) error { return a.ExportTrustKey(ctx, file) })
}

// ImportTrust takes the trust key back from a file, which stays.
func (o Offline) ImportTrust(ctx context.Context, files datadir.Files, file string) error {
	return o.moveTrust(ctx, files, "trust_key.imported", func(a *authority.Authority) error { return a.ImportTrustKey(ctx, file) })
}

func (o Offline) moveTrust(ctx context.Context, files datadir.Files, kind string, move func(*authority.Authority) error) error {
	if err := there(files.Data); err != nil {
		return err
	}
	return o.with(ctx, files, "", func(s *site, a *authority.Authority) error {
		if err := move(a); err != nil {
			return err
		}
		return s.record(ctx, kind)
	})
}

// RotateMaster seals the database under a new master key. It returns the key's file: out if that is set, else the same file as before.
func (o Offline) RotateMaster(ctx context.Context, files datadir.Files, at datadir.SharedStore, out string) (string, error) {
	if at.Store != "" {
		return o.rotateShared(ctx, files, at, out)
	}
	if err := there(files.Data); err != nil {
		return "", err
	}
	s, err := o.enter(files)
	if err != nil {
		return "", err
	}
	file, err := s.keys.Rotate(ctx, out)
	return file, errors.Join(err, s.leave())
}
