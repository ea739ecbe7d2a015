package datadir

import "time"

// Files names the data of a gateway that is stopped.
type Files struct {
	Data          string
	MasterKeyFile string // empty: where the gateway itself looks
}

// SharedStore says where a store is that several gateways share, as the flags of serve do.
type SharedStore struct {
	Store             string // empty: there is none
	StoreCA           string
	StoreCert         string
	StoreKey          string
	StorePasswordFile string
}

// Copy says what to copy where: one of the two is a data directory, and the other one the address of a shared store.
type Copy struct {
	From, To      string `flag:"-"`
	MasterKeyFile string // the one key of both; empty: where a gateway looks that has the directory
	Force         bool   // replace what is there
	Way           SharedStore
}

// Copied says what came of it.
type Copied struct {
	Rows, Tables int
	Already      bool   // it was there already
	Aside        string // where that is which was there before; empty: nothing was
	KeyFile      string // as in Restored
	KeyAside     string
	KeyToName    string
}

// Restore says what to bring back.
type Restore struct {
	Files
	Shared       SharedStore // the store that is brought back; without it the database in Data is
	File         string      `flag:"-"`
	Force        bool        // move a database aside that is there
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
