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
	"syscall"
)

const (
	masterKeySize = 32 // bytes, AES-256
	masterKeyName = "master.key"
	oldSuffix     = ".old" // of the key before, for as long as it may be the one that opens the database
)

// masterKey finds the key that seals secrets in the database, in this order: the file that was named, systemd's credential
// master.key, the variable MUSTER_MASTER_KEY, DATA/master.key. The last is made at the first start.
func masterKey(s settings, getenv func(string) string, say io.Writer) ([]byte, error) {
	if s.masterKey != "" {
		return readMasterKey(s.masterKey)
	}
	if dir := getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		key, err := readMasterKey(filepath.Join(dir, "master.key"))
		if !errors.Is(err, fs.ErrNotExist) {
			return key, err
		}
	}
	if text := getenv("MUSTER_MASTER_KEY"); text != "" {
		return decodeMasterKey("MUSTER_MASTER_KEY", text)
	}
	path := filepath.Join(s.data, masterKeyName)
	key, err := readMasterKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newMasterKey(path, s.data, say)
	}
	return key, err
}

// masterKeyFile is the file that masterKey reads; empty: the key comes from the environment, and is its owner's to change.
func masterKeyFile(s settings, getenv func(string) string) string {
	if s.masterKey != "" {
		return s.masterKey
	}
	if dir := getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		if _, err := os.Stat(filepath.Join(dir, masterKeyName)); err == nil {
			return ""
		}
	}
	if getenv("MUSTER_MASTER_KEY") != "" {
		return ""
	}
	return filepath.Join(s.data, masterKeyName)
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
		return nil, fmt.Errorf("the master key in %s is not 32 bytes in base64; restore it from a backup: without it the database's secrets cannot be opened", from)
	}
	return key, nil
}

// newMasterKey refuses to make a key beside a database that another one seals.
func newMasterKey(path, data string, say io.Writer) ([]byte, error) {
	if _, err := os.Stat(filepath.Join(data, databaseFile)); err == nil {
		return nil, fmt.Errorf("%s is missing, but the database beside it is sealed with it; restore the file, or name its place with --master-key-file", path)
	}
	key := make([]byte, masterKeySize)
	rand.Read(key)
	if err := writeSynced(path, base64.StdEncoding.EncodeToString(key)+"\n"); err != nil {
		return nil, err
	}
	fmt.Fprintf(say, "made %s, which seals the secrets in the database; keep a copy away from this disk, or hand it over as a systemd credential (LoadCredential=master.key:...)\n", path)
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

// lockData keeps a second gateway away from a data directory that one serves already.
func lockData(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, "muster.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("another gateway serves %s already; choose another --data, or stop that one", dir)
	}
	return file, nil
}
