// Package masterkey finds, makes and changes the key that seals the secrets in a gateway's database, and opens the database with it.
//
// A database is sealed with the key of its own gateway and never with another one's. So a key that is missing is made only beside a
// database that is new, and a key that does not fit is refused with the place where it was found.
package masterkey

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"muster/agent/disk"
	"muster/gateway/internal/datadir"
	"muster/store"
)

const (
	size      = 32 // bytes, AES-256
	variable  = "MUSTER_MASTER_KEY"
	oldSuffix = ".old" // of the previous key, while it may still be the one that opens the database
)

// Source says where the master key of a data directory can be. The first of these that exists is used: the file that was named, systemd's
// credential master.key, the variable MUSTER_MASTER_KEY, the service's key, DATA/master.key.
type Source struct {
	Data       string // the data directory
	Named      string // the file that the operator named; empty: none
	ServiceKey string // the installed service's own key, where it is the key of this data; empty: it is not looked at
	Service    bool   // the data are those of the installed service
	Root       string // stands before the service's paths; a test's machine
	Getenv     func(string) string
	Say        io.Writer      // is told of a key that was made and of a change that was ended
	Disk       disk.Steps     // nil: nobody is told; for tests
	Shared     *store.Cluster // the store of several gateways, in place of a database in Data; nil: there is none
}

// place is where the master key of a data directory is.
type place struct {
	file string
	text string // of the variable that holds the key; then there is no file
	lent bool   // the file is systemd's copy, and another one is the key's place
	made bool   // the file is made at the first start
}

func (p place) String() string {
	if p.text != "" {
		return variable
	}
	return p.file
}

// place gives the first place that counts. Only the gateway that systemd started finds systemd's copy.
func (s Source) place() place {
	if s.Named != "" {
		return place{file: s.Named}
	}
	if lent := s.lent(); lent != "" && exists(lent) {
		return place{file: lent, lent: true}
	}
	if text := s.Getenv(variable); text != "" {
		return place{text: text}
	}
	if s.ServiceKey != "" {
		return place{file: s.ServiceKey}
	}
	return place{file: s.own(), made: true}
}

// lent is where systemd puts its copy of the key; empty: systemd did not start this program.
func (s Source) lent() string {
	dir := s.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, datadir.MasterKey)
}

func (s Source) own() string { return filepath.Join(s.Data, datadir.MasterKey) }

func (s Source) database() string { return filepath.Join(s.Data, datadir.Database) }

// InstalledKey returns the file of the installed service's key, whether or not it is there.
func (s Source) InstalledKey() string { return filepath.Join(s.Root, datadir.ServiceKey) }

// Where names the place of the key: a file, or the variable.
func (s Source) Where() string { return s.place().String() }

// WithData reports whether the key is in the data directory: whoever copies that has the database and what opens it.
func (s Source) WithData() bool {
	file := s.place().file
	return file != "" && datadir.Same(filepath.Dir(file), s.Data)
}

// File returns the file that holds the key. It is empty if the key comes from the environment: then its owner changes it.
func (s Source) File() string {
	if p := s.place(); !p.lent {
		return p.file
	}
	return ""
}

// Key returns the key. It makes one if there is neither a key nor a database.
func (s Source) Key() ([]byte, error) {
	p := s.place()
	if p.text != "" {
		return decode(variable, p.text)
	}
	key, err := Read(p.file)
	if !errors.Is(err, fs.ErrNotExist) || !p.made {
		return key, err
	}
	if s.Shared != nil {
		return nil, fmt.Errorf("there is no master key: looked for %s. A store that gateways share never gets one made: name the one of the "+
			"other gateways with --master-key-file. For the first gateway, openssl rand -base64 32 > FILE makes one", s.lookedFor())
	}
	if exists(s.database()) { // which another key seals
		const text = "there is no master key for the database in %s: looked for %s; put its key back, or name the file with " +
			"--master-key-file%s; muster help lost-gateway says where to look"
		return nil, fmt.Errorf(text, s.Data, s.lookedFor(), s.AtService())
	}
	return s.newKey(p.file)
}

// lookedFor names every place where the key could have been.
func (s Source) lookedFor() string {
	places := []string{s.own()}
	if s.Service {
		places = append(places, s.InstalledKey())
	}
	if lent := s.lent(); lent != "" {
		places = append(places, lent)
	}
	return strings.Join(append(places, "the variable "+variable), ", ")
}

// AtService says how the gateway of the service's own data is started, so that it gets the key. It is empty for other data.
func (s Source) AtService() string {
	installed := datadir.Installed(s.Root)
	if installed == "" || !datadir.Same(installed, s.Data) || !exists(s.InstalledKey()) {
		return ""
	}
	return ". This is the data of the installed service, which has the key: sudo systemctl start muster"
}

func (s Source) newKey(path string) ([]byte, error) {
	key := random()
	if err := s.Disk.Create(path, 0o600, encode(key)); err != nil {
		return nil, err
	}
	fmt.Fprintf(s.Say, "made %s, the key that seals the secrets in the database. ", path)
	fmt.Fprintln(s.Say, "Keep a copy of it on another machine: without it the database is of no use")
	return key, nil
}

// Read returns the key in a file. If there is no such file the error wraps fs.ErrNotExist.
func Read(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("master key: %w", err)
	}
	return decode(path, string(text))
}

// Write puts a key into a file, and removes first what an earlier try may have left there.
func (s Source) Write(path string, key []byte) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.Disk.Create(path, 0o600, encode(key))
}

func random() []byte {
	key := make([]byte, size)
	rand.Read(key)
	return key
}

func encode(key []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(key) + "\n") }

func decode(from, text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(key) != size {
		const text = "the master key in %s is not 32 bytes in base64; restore it from a backup: " +
			"without it the database's secrets cannot be opened"
		return nil, fmt.Errorf(text, from)
	}
	return key, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
