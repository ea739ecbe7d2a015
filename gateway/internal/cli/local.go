package cli

import (
	"context"

	"muster/agent/sign"
	"muster/gateway/internal/datadir"
)

// Local has the work on files of this machine that does not go through a gateway: on the data of a stopped gateway, and with keys that no
// gateway may see. The program sets every field.
type Local struct {
	// InitCA makes the CA in a data directory that has none, and moves the root's key into rootOut if that is set. It returns the root's
	// pin.
	InitCA func(ctx context.Context, data datadir.Files, domain, rootOut string) (pin string, err error)
	// NewRoot makes a root in a directory and gives its certificate in PEM.
	NewRoot func(dir, domain string) (certificate string, err error)
	// SignIntermediate signs a gateway's request with the root in a directory and gives the certificate in PEM.
	SignIntermediate func(dir, request, domain string) (certificate string, err error)
	// SignSet signs a trust set with the key in a file.
	SignSet func(file string, payload []byte) (sign.Envelope, error)
	// RotateMaster seals the database, or the shared store at an address, under a new master key. It returns the file of that key.
	RotateMaster func(ctx context.Context, data datadir.Files, at datadir.SharedStore, out string) (file string, err error)
	ExportTrust  func(ctx context.Context, data datadir.Files, file string) error
	ImportTrust  func(ctx context.Context, data datadir.Files, file string) error
	Restore      func(ctx context.Context, r datadir.Restore) (datadir.Restored, error)
	// Copy copies a database between a data directory and a shared store.
	Copy func(ctx context.Context, c datadir.Copy) (datadir.Copied, error)
	// Schema gives the number of the schema of the database in a data directory, 0 if there is none, and of the one that this program
	// knows. A gateway may serve it meanwhile.
	Schema func(ctx context.Context, data string) (has, known int, err error)
}

// ServeFlags are the flags of serve as far as the service has to know them.
type ServeFlags struct {
	Given       map[string]string // every flag that was set, by name
	Data        string
	Listen      string
	PlainListen string // "": none
	PublicURL   string
	Files       map[string]bool // of Given, those that name a file; true: it has to be there at every start
}
