package main

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

	"muster/gateway/internal/datadir"
)

const (
	masterKeySize     = 32 // bytes, AES-256
	masterKeyName     = "master.key"
	masterKeyVariable = "MUSTER_MASTER_KEY"
	oldSuffix         = ".old" // of the key before, for as long as it may be the one that opens the database
)

// keyPlace is where the master key of a data directory is.
type keyPlace struct {
	file string
	text string // of the variable that holds the key; then there is no file
	lent bool   // the file is systemd's copy, and another one is the key's place
	made bool   // the file is made at the first start
}

// keyPlace decides by what belongs to this gateway alone, in this order: the file that was named, systemd's credential
// master.key, the variable MUSTER_MASTER_KEY, the installed service's own file, DATA/master.key.
func (s *settings) keyPlace(getenv func(string) string) keyPlace {
	if s.masterKey != "" {
		return keyPlace{file: s.masterKey}
	}
	if dir := getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		if path := filepath.Join(dir, masterKeyName); exists(path) {
			return keyPlace{file: path, lent: true}
		}
	}
	if text := getenv(masterKeyVariable); text != "" {
		return keyPlace{text: text}
	}
	if s.serviceKey != "" {
		return keyPlace{file: s.serviceKey}
	}
	return keyPlace{file: filepath.Join(s.data, masterKeyName), made: true}
}

func (p keyPlace) String() string {
	if p.text != "" {
		return masterKeyVariable
	}
	return p.file
}

// masterKey gives the key that seals secrets in the database.
func masterKey(s settings, getenv func(string) string, say io.Writer) ([]byte, error) {
	place := s.keyPlace(getenv)
	if place.text != "" {
		return decodeMasterKey(masterKeyVariable, place.text)
	}
	key, err := readMasterKey(place.file)
	if !errors.Is(err, fs.ErrNotExist) || !place.made {
		return key, err
	}
	if exists(filepath.Join(s.data, databaseFile)) { // which another key seals
		const text = "there is no master key for the database in %s: looked for %s; put its key back, or name the file with --master-key-file%s; muster help lost-gateway says where to look"
		return nil, fmt.Errorf(text, s.data, s.lookedFor(getenv), s.atService())
	}
	return newMasterKey(place.file, say)
}

// lookedFor names every place where the key could have been.
func (s *settings) lookedFor(getenv func(string) string) string {
	places := []string{filepath.Join(s.data, masterKeyName)}
	if s.service {
		places = append(places, filepath.Join(s.root, serviceKey))
	}
	if dir := getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		places = append(places, filepath.Join(dir, masterKeyName))
	}
	return strings.Join(append(places, "the variable "+masterKeyVariable), ", ")
}

// atService says how the gateway of the service's own data is started, which hands it the key.
func (s *settings) atService() string {
	installed := datadir.Installed(s.root)
	if installed == "" || !datadir.Same(installed, s.data) || !exists(filepath.Join(s.root, serviceKey)) {
		return ""
	}
	return ". This is the data of the installed service, which has the key: sudo systemctl start muster"
}

// masterKeyFile is the file that holds the key; empty: the key comes from the environment, and is its owner's to change.
func masterKeyFile(s settings, getenv func(string) string) string {
	if place := s.keyPlace(getenv); !place.lent {
		return place.file
	}
	return ""
}

func readMasterKey(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("master key: %w", err)
	}
	return decodeMasterKey(path, string(text))
}

func decodeMasterKey(from, text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(key) != masterKeySize {
		const text = "the master key in %s is not 32 bytes in base64; restore it from a backup: without it the database's secrets cannot be opened"
		return nil, fmt.Errorf(text, from)
	}
	return key, nil
}

func newMasterKey(path string, say io.Writer) ([]byte, error) {
	key := make([]byte, masterKeySize)
	rand.Read(key)
	if err := writeSynced(path, base64.StdEncoding.EncodeToString(key)+"\n"); err != nil {
		return nil, err
	}
	fmt.Fprintf(say, "made %s, the key that seals the secrets in the database. ", path)
	fmt.Fprintln(say, "Keep a copy of it on another machine: without it the database is of no use")
	return key, nil
}

func writeSynced(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Sync(), file.Close())
}
