package cli

import (
	"context"
	"time"

	"muster/agent/sign"
)

// Local is what is done on files of this machine and not through a gateway: on the data of one that is stopped, and with
// keys that no gateway is to see. The program sets every field.
type Local struct {
	// InitCA makes the CA in a data directory that has none, and moves the root's key into rootOut where that is given. It
	// gives the root's pin.
	InitCA func(ctx context.Context, data DataFiles, domain, rootOut string) (pin string, err error)
	// NewRoot makes a root in a directory and gives its certificate in PEM.
	NewRoot func(dir, domain string) (certificate string, err error)
	// SignIntermediate signs a gateway's request with the root in a directory and gives the certificate in PEM.
	SignIntermediate func(dir, request, domain string) (certificate string, err error)
	// SignSet signs a trust set with the key in a file.
	SignSet func(file string, payload []byte) (sign.Envelope, error)
	// RotateMaster seals the database under a new master key and gives the file where that is.
	RotateMaster func(ctx context.Context, data DataFiles, out string) (file string, err error)
	ExportTrust  func(ctx context.Context, data DataFiles, file string) error
	ImportTrust  func(ctx context.Context, data DataFiles, file string) error
	Restore      func(ctx context.Context, r Restore) (Restored, error)
	// Schema gives the number of the schema of the database in a data directory, 0 if there is none, and of the one that this program
	// knows. A gateway may serve it meanwhile.
	Schema func(ctx context.Context, data string) (has, known int, err error)
}

// DataFiles names the data of a gateway that is stopped.
type DataFiles struct {
	Data          string
	MasterKeyFile string // empty: where the gateway itself looks
}

// Restore says what to bring back.
type Restore struct {
	DataFiles
	File         string `flag:"-"`
	Force        bool   // move a database aside that is there
	AdoptFor     time.Duration
	TrustKeyFile string `flag:"trust-key"` // where the trust key is kept elsewhere
}

// Restored says what was brought back.
type Restored struct {
	BackupAt     time.Time
	AdoptUntil   time.Time
	Blobs        int    // of the registry, that came with it
	LostBlobs    int    // that the database named, and that are in neither the backup nor the data directory
	Aside        string // where the database is that was there before; empty: there was none
	TrustKeyAway bool   // no higher trust sets could be signed
	KeyFile      string // where the master key was put for the installed service; empty: it was there, or there is no service
	KeyAside     string // where the key is that was there before; empty: there was none
	KeyToName    string // the master key's file, where a gateway does not find it by itself
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
