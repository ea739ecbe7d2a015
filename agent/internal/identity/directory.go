package identity

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"muster/agent/disk"
)

// Names of the files in a state directory. Package service removes them when the node leaves.
const (
	Files      = "identity*.json" // a pattern: the identity, and those that Keep has kept
	LockFile   = "agent.lock"
	StatusFile = "status.json"

	identityFile = "identity.json"
)

// InstallPrefix begins the name of the folder that install.sh runs the agent from. It may lie in the state directory for a while.
const InstallPrefix = ".muster-install."

// ErrLocked is returned if another agent works on the same state directory.
var ErrLocked = errors.New("another muster-agent is running on this state directory: stop it, or give --state another directory")

// DefaultPath returns where an agent keeps its state: /var/lib/muster-agent for root, else below the user's XDG state folder.
// It is empty if neither is known.
func DefaultPath(getenv func(string) string, uid int) string {
	if uid == 0 {
		return "/var/lib/muster-agent"
	}
	if base := getenv("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "muster-agent")
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "state", "muster-agent")
	}
	return ""
}

// Directory is a state directory whose lock this process holds. One goroutine at a time may use its methods. SaveStatus alone may run
// beside the others.
type Directory struct {
	path string
	lock *os.File
	disk disk.Steps // nil: nobody is told; for tests
}

// Open makes the directory (0700) if it is missing, and takes its lock. The system frees the lock at the latest when the process ends. The
// error is ErrLocked if another agent holds the lock.
func Open(path string) (*Directory, error) { return open(path, nil) }

func open(path string, steps disk.Steps) (*Directory, error) {
	if err := steps.MakeFolders(path, 0o700); err != nil {
		return nil, explain(path, err)
	}
	if err := MakePrivate(path); err != nil {
		return nil, err
	}
	lock, err := takeLock(filepath.Join(path, LockFile))
	if err != nil {
		return nil, err
	}
	return &Directory{path: path, lock: lock, disk: steps}, nil
}

// takeLock tries for a tenth of a second, because Running holds the lock while it looks.
func takeLock(path string) (*os.File, error) {
	for range 10 {
		lock, err := disk.Lock(path)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return lock, explain(path, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, ErrLocked
}

// Running reports whether an agent holds the lock of a state directory.
func Running(path string) bool { return disk.Locked(filepath.Join(path, LockFile)) }

// Path returns the path of the directory.
func (d *Directory) Path() string { return d.path }

// Close frees the lock.
func (d *Directory) Close() error { return d.lock.Close() }

// Load reads the identity file. A directory without one has the zero State. The error names a file that cannot be read, or whose parts
// do not fit together. The file stays as it is.
func (d *Directory) Load() (State, error) { return Read(d.path) }

// Read does what Load does, without the lock, for a caller that only looks. An agent may be at work on the directory.
func Read(path string) (State, error) {
	file := filepath.Join(path, identityFile)
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // Open says what is wrong with the directory
		return State{}, nil
	}
	if err != nil {
		return State{}, explain(file, err)
	}
	var s State
	if err := json.Unmarshal(raw, &s); err != nil {
		return State{}, broken(file, errors.New("it is not the JSON that an agent writes"))
	}
	if s.Version > formatVersion {
		return State{}, fmt.Errorf("%s was written by a newer agent (format %d): run that one", file, s.Version)
	}
	if err := s.check(); err != nil {
		return State{}, broken(file, err)
	}
	return s, nil
}

// check makes sure that the parts fit together, so that later code may rely on it: pending key, node id, key and certificate, roots,
// answer keys.
func (s State) check() error {
	if s.Pending != "" {
		if _, err := ParseKey(s.Pending); err != nil {
			return fmt.Errorf("pending: %w", err)
		}
	}
	if s.Current == nil {
		return nil
	}
	if s.NodeID == "" {
		return errors.New("it names no node")
	}
	_, err := s.Transport()
	return err
}

// broken is the error for a damaged file. The agent never repairs or replaces it, because it may hold the only copy of the key.
func broken(file string, err error) error {
	return fmt.Errorf("%s is damaged and was left as it is: bring it back from a backup, or move it away and join again "+
		"with a new token: %w", file, err)
}

// Save replaces the identity file. When it returns nil the state is on the disk, whatever happens next.
func (d *Directory) Save(s State) error {
	s.Version = formatVersion
	raw, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return explain(d.path, d.disk.Replace(filepath.Join(d.path, identityFile), append(raw, '\n'), 0o600))
}

// Keep gives the identity file a second name and returns it. The file stays under that name when Save writes another node's identity.
func (d *Directory) Keep(nodeID string) (string, error) {
	base := filepath.Join(d.path, "identity-"+filepath.Base(nodeID))
	for number := 1; ; number++ {
		to := base + ".json"
		if number > 1 {
			to = base + "-" + strconv.Itoa(number) + ".json"
		}
		err := os.Link(filepath.Join(d.path, identityFile), to)
		if errors.Is(err, fs.ErrExist) && number < 100 {
			continue
		}
		if err != nil {
			return "", explain(d.path, err)
		}
		return to, explain(d.path, d.disk.SyncFolder("the name of "+filepath.Base(to), d.path))
	}
}

// explain adds the next step to what the system says about a path.
func explain(path string, err error) error {
	if err == nil {
		return nil
	}
	step := cmp.Or(disk.NextStep(err), "check it, or give --state another directory")
	return fmt.Errorf("state directory %s: %s: %w", path, step, err)
}
