package datadir

import "time"

// Files names the data of a gateway that is stopped.
type Files struct {
	Data          string
	MasterKeyFile string // empty: where the gateway itself looks
}

// Restore says what to bring back.
type Restore struct {
	Files
	File         string `flag:"-"`
	Force        bool   // move a database aside that is there
	AdoptFor     time.Duration
	TrustKeyFile string `flag:"trust-key"` // if the trust key is kept elsewhere
}

// Restored says what was brought back.
type Restored struct {
	BackupAt     time.Time
	AdoptUntil   time.Time
	Blobs        int    // of the registry, that came with it
	LostBlobs    int    // that the database named, and that are in neither the backup nor the data directory
	Aside        string // where the database is that was there before; empty: there was none
	TrustKeyAway bool   // no higher trust sets could be signed
	AlertsAway   bool   // what receivers of alerts were told since could not be taken over from the database that was there
	KeyFile      string // where the master key was put for the installed service; empty: it was there, or there is no service
	KeyAside     string // where the key is that was there before; empty: there was none
	KeyToName    string // the master key's file, where a gateway does not find it by itself
}
