package main

import (
	"context"
	"io"

	"muster/gateway/internal/authority"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/offline"
)

// local is what the command line does on files of this machine, without a gateway.
func local(getenv func(string) string, say io.Writer) cli.Local {
	o := offline.Offline{Getenv: getenv, Say: say}
	return cli.Local{
		InitCA: func(ctx context.Context, data cli.DataFiles, domain, rootOut string) (string, error) {
			return o.InitCA(ctx, offline.Files(data), domain, rootOut)
		},
		RotateMaster: func(ctx context.Context, data cli.DataFiles, out string) (string, error) {
			return o.RotateMaster(ctx, offline.Files(data), out)
		},
		ExportTrust: func(ctx context.Context, data cli.DataFiles, file string) error {
			return o.ExportTrust(ctx, offline.Files(data), file)
		},
		ImportTrust: func(ctx context.Context, data cli.DataFiles, file string) error {
			return o.ImportTrust(ctx, offline.Files(data), file)
		},
		Restore: func(ctx context.Context, r cli.Restore) (cli.Restored, error) {
			done, err := o.Restore(ctx, offline.Restore{
				Files: offline.Files(r.DataFiles), File: r.File, Force: r.Force, AdoptFor: r.AdoptFor, TrustKeyFile: r.TrustKeyFile,
			})
			return cli.Restored(done), err
		},
		NewRoot: func(dir, domain string) (string, error) { return authority.NewRootDir(dir, domain, nil) },
		SignIntermediate: func(dir, request, domain string) (string, error) {
			return authority.SignIntermediate(dir, request, domain, nil)
		},
		SignSet: authority.SignSet,
	}
}
