package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"muster/store"
)

// TakeCredential reads the registry's credential from its file and seals it. After that the file may be removed. An empty file removes
// the sealed credential. named says how the operator set a flag.
func (b *Bootstrap) TakeCredential(ctx context.Context, s Settings, named func(flag string) string) error {
	if s.CredentialFile == "" {
		return b.credentialLeft(ctx, s.Registry)
	}
	setting := named(FlagCredentialFile)
	text, err := os.ReadFile(s.CredentialFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return b.sealedServes(ctx, s, setting)
	case err != nil:
		return fmt.Errorf("%s: %w", setting, err)
	case len(bytes.TrimSpace(text)) == 0:
		b.config.Logger.Warn("the registry's credential is removed: its file is empty", "file", s.CredentialFile)
		return b.DropRegistryCredential(ctx, store.Actor{Name: "gateway"})
	}
	c, err := ParseRegistryCredential(s.Registry, text)
	if err != nil {
		return fmt.Errorf("%s %s: %w", setting, s.CredentialFile, err)
	}
	return b.SetRegistryCredential(ctx, c, store.Actor{Name: "gateway"})
}

// credentialLeft warns of a sealed credential without a setting: leaving the setting out does not remove the credential.
func (b *Bootstrap) credentialLeft(ctx context.Context, registry string) error {
	sealed, err := b.SealedRegistry(ctx)
	if err != nil || sealed == "" {
		return err
	}
	const end = "start once with --" + FlagCredentialFile + " /dev/null"
	said := "a registry's credential is still sealed from an earlier start, though --" + FlagRegistry + " does not name that registry"
	if sealed == registry {
		said = "--" + FlagCredentialFile + " is left out, and the credential that is sealed from an earlier start goes on serving"
	}
	b.config.Logger.Warn(said, "registry", sealed, "to end it", end)
	return nil
}

// sealedServes is for a file that does not exist. Either it was removed after an earlier start, and the credential is sealed, or its
// path is wrong, which is an error.
func (b *Bootstrap) sealedServes(ctx context.Context, s Settings, setting string) error {
	sealed, err := b.SealedRegistry(ctx)
	if err != nil {
		return err
	}
	if sealed == "" || sealed != s.Registry {
		const text = "%s: there is no file %s, and no credential for %s is sealed from an earlier start: write USERNAME:PASSWORD into it, " +
			"or leave the setting out; to end one that is sealed, name an empty file (/dev/null)"
		return fmt.Errorf(text, setting, s.CredentialFile, s.Registry)
	}
	b.config.Logger.Info("no file of --"+FlagCredentialFile+": the sealed one serves", "file", s.CredentialFile)
	return nil
}
