package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"muster/gateway/internal/cli"
	"muster/gateway/internal/datadir"
)

const masterKeySize = 32 // bytes

// user finds or makes the service's own user.
func (s *service) user(ctx context.Context, data string) (uid, gid int, err error) {
	how := "there"
	said, err := s.Command(ctx, "getent", "passwd", datadir.ServiceUser)
	if err != nil {
		how = "made"
		if _, err := s.Command(ctx, "useradd", "--system", "--user-group", "--no-create-home", "--home-dir", data, "--shell",
			"/usr/sbin/nologin", datadir.ServiceUser); err != nil {
			return 0, 0, err
		}
		if said, err = s.Command(ctx, "getent", "passwd", datadir.ServiceUser); err != nil {
			return 0, 0, err
		}
	}
	fields := strings.Split(strings.TrimSpace(said), ":")
	if len(fields) < 4 {
		return 0, 0, fmt.Errorf("getent passwd %s says %.80q", datadir.ServiceUser, said)
	}
	uid, err = strconv.Atoi(fields[2])
	gid, errGroup := strconv.Atoi(fields[3])
	if err = errors.Join(err, errGroup); err != nil || uid == 0 {
		return 0, 0, fmt.Errorf("getent passwd %s says %.80q: no user for a service", datadir.ServiceUser, said)
	}
	s.say("user %s: %s (uid %d)", datadir.ServiceUser, how, uid)
	return uid, gid, nil
}

// masterKey puts the key into root's own file: it is moved out of the data, copied from --master-key-file, or made. A key that cannot be
// the database's is refused before anything depends on it.
func (s *service) masterKey(settings *serviceSettings) error {
	inData := filepath.Join(settings.flags.Data, datadir.MasterKey)
	sources := []string{datadir.ServiceKey, inData}
	if settings.keyFile != "" {
		sources = append(sources, settings.keyFile)
	}
	var key []byte
	from := ""
	for _, path := range sources {
		raw, err := s.read(path)
		if err != nil {
			return err
		}
		if raw == nil && path == settings.keyFile {
			return cli.Hinted("there is no "+path, "correct --master-key-file, or leave it out")
		}
		if raw == nil {
			continue
		}
		if decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(raw))); err != nil || len(decoded) != masterKeySize {
			return cli.Hinted("the master key in "+path+" is not 32 bytes in base64",
				"restore it from a backup: without it the database's secrets cannot be opened")
		}
		if key != nil && !bytes.Equal(bytes.TrimSpace(key), bytes.TrimSpace(raw)) {
			return cli.Hinted(fmt.Sprintf("%s and %s are two different keys, and only one opens the database", from, path),
				"keep the right one, and move the other away")
		}
		if key == nil {
			key = raw
			from = path
		}
	}
	if key == nil && s.exists(filepath.Join(settings.flags.Data, datadir.Database)) {
		return cli.Hinted("there is a database in "+settings.flags.Data+", and no master key that opens it",
			"restore "+datadir.ServiceKey+", or name the file with --master-key-file")
	}
	if key == nil && settings.flags.Given["store"] != "" {
		return cli.Hinted("a gateway on a shared --store never gets a master key made: all gateways on it need the same one",
			"name the file with it: --master-key-file FILE; muster help standby")
	}
	return s.keepKey(key, from, inData)
}

// keepKey puts the key where root and systemd read it, and removes it from the data directory: the key must not lie beside the database.
// The copy is on the disk before the removal.
func (s *service) keepKey(key []byte, from, inData string) error {
	how := datadir.ServiceKey + " is there"
	switch from {
	case datadir.ServiceKey:
		if err := os.Chmod(s.at(datadir.ServiceKey), 0o600); err != nil {
			return err
		}
	case "":
		random := make([]byte, masterKeySize)
		if _, err := io.ReadFull(s.Rand, random); err != nil {
			return err
		}
		key = []byte(base64.StdEncoding.EncodeToString(random) + "\n")
		how = datadir.ServiceKey + " was made; keep a copy away from this machine"
	case inData:
		how = "moved from " + inData + " to " + datadir.ServiceKey + "; keep a copy away from this machine"
	default:
		how = "copied from " + from + " to " + datadir.ServiceKey
	}
	if from != datadir.ServiceKey {
		if err := s.write(datadir.ServiceKey, key, 0o600); err != nil {
			return err
		}
	}
	s.say("master key: %s", how)
	return s.remove(inData)
}

// place puts data, program, settings and unit where the service finds them. It notes what changed, so that start knows whether to
// restart.
func (s *service) place(ctx context.Context, settings *serviceSettings, uid, gid int) error {
	if err := s.data(settings.flags.Data, uid, gid); err != nil {
		return err
	}
	for _, f := range settings.readable {
		if !s.exists(f.path) {
			continue
		}
		if _, err := s.Command(ctx, "runuser", "-u", datadir.ServiceUser, "--", "test", "-r", f.path); err != nil {
			return cli.Hinted("the user "+datadir.ServiceUser+" may not read "+f.path,
				"chown "+datadir.ServiceUser+" "+f.path+" lets it, or setfacl -m u:"+datadir.ServiceUser+":r "+f.path+
					"; its folders need x for that user; or have what renews the file put a copy into "+
					filepath.Dir(datadir.ServiceSettings))
		}
	}
	copied, err := s.program()
	if err != nil {
		return err
	}
	var changed []string
	for _, file := range []struct {
		path string
		text string
		mode fs.FileMode
	}{{datadir.ServiceSettings, settings.text, 0o600}, {datadir.ServiceUnit, unitText(settings.flags), 0o644}} {
		old, err := s.read(file.path)
		if err != nil {
			return err
		}
		if old != nil && string(old) == file.text {
			continue
		}
		s.before = append(s.before, former{file.path, old, file.mode})
		if err := s.write(file.path, []byte(file.text), file.mode); err != nil {
			return err
		}
		changed = append(changed, file.path)
	}
	what := programPath + " is this program already"
	if copied {
		what = "muster " + s.Version + " copied to " + programPath
	}
	if s.changed = copied || len(changed) > 0; len(changed) > 0 {
		what += ", written: " + strings.Join(changed, " and ")
	} else {
		what += ", settings and unit as they were"
	}
	s.say("%s", what)
	return nil
}

// data gives the data directory and all that is in it to the service's user, also what a gateway left there that root ran by hand.
// Nothing outside is reached: a link in the directory may lead elsewhere.
func (s *service) data(data string, uid, gid int) error {
	if err := os.MkdirAll(s.at(data), 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(s.at(data))
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Chmod(".", 0o700); err != nil {
		return err
	}
	return fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return s.Chown(root, name, uid, gid)
	})
}

// program copies the running program to its place, unless it is there already. The copy replaces the file and does not write into it:
// the system refuses to write into a program that runs.
func (s *service) program() (copied bool, err error) {
	installed, err := os.Stat(s.at(programPath))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	running, err := os.Stat(s.Program)
	if err != nil {
		return false, err
	}
	if installed != nil && os.SameFile(installed, running) {
		return false, nil
	}
	body, err := os.ReadFile(s.Program)
	if err != nil {
		return false, err
	}
	old, err := s.read(programPath)
	if err != nil || old != nil && bytes.Equal(old, body) && installed.Mode().Perm() == 0o755 {
		return false, err
	}
	if old != nil {
		if err := s.write(programBefore, old, 0o755); err != nil {
			return false, fmt.Errorf("keep the program before as %s: %w", programBefore, err)
		}
	}
	s.before = append(s.before, former{programPath, old, 0o755})
	if err := s.write(programPath, body, 0o755); err != nil {
		return false, fmt.Errorf("copy this program to %s: %w", programPath, err)
	}
	return true, nil
}

// hidden are places that the unit's hardening keeps from the service.
func hidden(path string) bool {
	return slices.ContainsFunc([]string{"/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/", "/dev/", "/proc/", "/sys/"},
		func(place string) bool {
			return strings.HasPrefix(path+"/", place)
		})
}
