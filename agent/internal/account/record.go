package account

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// RecordFile is the record's name in the state directory.
const RecordFile = "accounts.json"

// formatVersion grows when an older agent would misread the record.
const formatVersion = 1

// Phases of an account in the record.
const (
	making   = "making"   // useradd may have been cut off
	present  = "present"  // it is there
	removing = "removing" // its removal has begun
	kept     = "kept"     // it is gone, and its home directory is not: its UID is not given to another account
)

// account is one entry of the record.
type account struct {
	Name   string   `json:"name"`
	UID    int      `json:"uid"`
	Home   string   `json:"home"`
	Mark   string   `json:"mark"` // the account's comment
	Phase  string   `json:"phase"`
	Groups []string `json:"groups,omitempty"` // those that a task has made it join
	Keys   []string `json:"keys,omitempty"`   // what a task has written into authorized_keys: the keys without type and comment

	Allocation string `json:"allocation,omitempty"` // which one it was made for; empty: for none
}

// record is what the agent remembers of the accounts that it made.
type record struct {
	Version  int       `json:"version"`
	Accounts []account `json:"accounts"`
}

// newMark makes a comment for an account. It tells people who made the account, and tells this one from others of the same name.
func newMark() string { return "made by muster " + strings.ToLower(rand.Text()) }

// load reads the record. There is none before the first account. A record that somebody else could have written is not believed.
func (a *Accounts) load() (record, error) {
	path := filepath.Join(a.State, RecordFile)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return record{Version: formatVersion}, nil
	}
	if err != nil {
		return record{}, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 || a.ownerOf(info) != a.UID {
		return record{}, fmt.Errorf("%s could have been written by others than root: see who did that, and remove it or mend "+
			"its owner and mode", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return record{}, err
	}
	r, err := parseRecord(text)
	if err != nil {
		return record{}, fmt.Errorf("%s is damaged and was left as it is: bring it back from a backup, or move it away; "+
			"then muster takes the accounts in it for those of others: %w", path, err)
	}
	return r, nil
}

// parseRecord reads a record, and refuses one whose entries could make root do harm.
func parseRecord(text []byte) (record, error) {
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return record{}, errors.New("it is not the JSON that an agent writes")
	}
	if r.Version > formatVersion {
		return record{}, fmt.Errorf("it was written by a newer agent (format %d): run that one", r.Version)
	}
	for _, one := range r.Accounts {
		if one.UID < leastUID || one.Mark == "" || one.Name == "" || strings.ContainsAny(one.Name, "/.") || one.Home != home(one.Name) {
			return record{}, fmt.Errorf("the entry %.40q is not one that an agent writes", one.Name)
		}
		if !slices.Contains([]string{making, present, removing, kept}, one.Phase) {
			return record{}, fmt.Errorf("the entry %.40q has an unknown phase", one.Name)
		}
	}
	return r, nil
}

// save puts the record on the disk, with this account in it.
func (a *Accounts) save(r *record, one account) error {
	a.at("record " + one.Phase)
	at := r.index(one.Name)
	if at < 0 {
		r.Accounts = append(r.Accounts, one)
	} else {
		r.Accounts[at] = one
	}
	return a.write(*r)
}

// forget puts the record on the disk without this account.
func (a *Accounts) forget(r *record, name string) error {
	a.at("record forget")
	kept := []account{}
	for _, one := range r.Accounts {
		if one.Name != name {
			kept = append(kept, one)
		}
	}
	r.Accounts = kept
	return a.write(*r)
}

func (a *Accounts) write(r record) error {
	r.Version = formatVersion
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	path := filepath.Join(a.State, RecordFile)
	if err := a.disk.Replace(path, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("the record of accounts cannot be written, so nothing is changed: %w", err)
	}
	return nil
}

func (r record) index(name string) int {
	return slices.IndexFunc(r.Accounts, func(one account) bool { return one.Name == name })
}

// find gives the entry of an account.
func (r record) find(name string) (account, bool) {
	at := r.index(name)
	if at < 0 {
		return account{}, false
	}
	return r.Accounts[at], true
}

// home is where an account lives.
func home(name string) string { return "/home/" + name }

// Names are the accounts that muster made and that are still there, as far as the record can be read. It does not wait for a change that
// is under way.
func (a *Accounts) Names() []string {
	r, err := a.load()
	if err != nil {
		return nil
	}
	var names []string
	for _, one := range r.Accounts {
		if one.Phase != kept {
			names = append(names, one.Name)
		}
	}
	return names
}

// Bound are the UIDs of the accounts that were made for allocations, with these, as far as the record can be read. It does not wait for a
// change that is under way, which may take long: the look at the GPUs asks for them.
func (a *Accounts) Bound() map[int]string {
	r, _ := a.load()
	bound := map[int]string{}
	for _, one := range r.Accounts {
		if one.Allocation != "" && one.Phase != kept {
			bound[one.UID] = one.Allocation
		}
	}
	return bound
}
