package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/trust"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/paste"
)

func keyCommands() []cli.Command {
	return []cli.Command{
		{Name: "key ls", Flags: []string{"output"}, Run: keyList,
			Summary: "list the keys that nodes trust",
			Text: "A key that is online has its private half in the gateway's database. The " +
				"trust key signs the sets that name all the others.",
			Examples: []string{"muster key ls"}},
		{Name: "key rotate", Flags: []string{"answer", "task", "release", "trust", "now", "trust-key", "master", "master-key-file",
			"master-key-out", "store", "store-ca", "store-cert", "store-key", "store-password-file"}, Run: cli.With(keyRotate),
			Summary: "replace one of the keys",
			Text: "--answer, --task, --release and --trust work on the running gateway: the new key goes into the next signed set, the " +
				"one before stays good beside it, and answers are signed with the new one a quarter of an hour later, when nodes have " +
				"heard of it. --now is for a key that has leaked: nodes stop trusting it at once. A node that slept through any " +
				"number of rotations fetches the sets and follows them.\n\n" +
				"--master seals all secrets of the database under a new master key. " + cli.OfflineText +
				" The new key takes the place of the one before; where that is not a file that can be replaced, --master-key-out " +
				"FILE says where it goes. A crash at any point loses nothing: the same command, or the next start, goes on. " +
				"Older backups need the key from before: keep a copy of it for them. With --store it is the store that several gateways share: " +
				"stop all of them, name a new file with --master-key-out, and put that on each gateway's machine.",
			Examples: []string{"muster key rotate --answer", "muster key rotate --answer --now", "muster key rotate --master",
				"muster key rotate --master --store rqlite://10.0.0.1:4001 --store-ca ca.crt --master-key-out new.key",
				"muster key rotate --release --trust-key /media/usb/trust.key"}},
		{Name: "key drop", Args: "ID", Least: 1, Most: 1, Flags: []string{"trust-key", "yes"}, Run: keyDrop,
			Summary:  "make nodes stop trusting a key",
			Text:     "The last key of a role stays. It asks first unless --yes is given.",
			Examples: []string{"muster key drop 4f9a0c2112345678"}},
		{Name: "key export", Args: "FILE", Least: 1, Most: 1, Flags: []string{"trust", "master-key-file"}, Run: cli.With(keyExport),
			Summary: "move the trust key out of the gateway into a file",
			Text: "From then on whatever changes what nodes believe takes --trust-key FILE, which signs here and does not show the " +
				"key to the gateway. The file has mode 0600 and is not encrypted. " + cli.OfflineText,
			Examples: []string{"muster key export --trust /media/usb/trust.key"}},
		{Name: "key import", Args: "FILE", Least: 1, Most: 1, Flags: []string{"trust", "master-key-file"}, Run: cli.With(keyImport),
			Summary:  "put the trust key back into the gateway",
			Text:     "The file is as muster key export wrote it. " + cli.OfflineText,
			Examples: []string{"muster key import --trust /media/usb/trust.key"}},
	}
}

func keyList(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "ROLE"}, {Name: "ID"}, {Name: "SINCE", Rank: 2}, {Name: "KEY", Rank: 1}, {Name: "SIGNS", Rank: 3}}
	return cli.ShowList(ctx, s, api.PathCA, nil, columns, func(ca trust.CA) [][]string {
		return cli.Rows(ca.Keys, func(k trust.Key) []string {
			return []string{k.Role, k.ID, screen.Since(s.Now(), k.Since), online(k.Online), screen.YesNo(k.InUse)}
		})
	})
}

// masterRole is the key that the gateway itself does not rotate.
const masterRole = "master"

func keyRotate(ctx context.Context, s *cli.Session, o struct{ Answer, Task, Release, Trust, Master, Now bool }) error {
	q := trust.RotateRequest{Now: o.Now}
	asked := 0
	for role, on := range map[string]bool{"answer": o.Answer, "task": o.Task, "release": o.Release, "trust": o.Trust, masterRole: o.Master} {
		if on {
			q.Role = role
			asked++
		}
	}
	if asked != 1 {
		return cli.Usagef("one of --answer, --task, --release, --trust, --master", "muster key rotate: which key?")
	}
	if q.Role == masterRole {
		return rotateMaster(ctx, s)
	}
	change, err := cli.Send[trust.TrustChange](ctx, s, "POST", api.PathKeysRotate, q)
	if err != nil {
		return err
	}
	return publish(ctx, s, change)
}

// rotateMaster works on the files of a stopped gateway. The installed service reads its key from one place alone, so it says where the
// new key has to go when it was written elsewhere.
func rotateMaster(ctx context.Context, s *cli.Session) error {
	data, err := s.DataFiles()
	if err != nil {
		return err
	}
	var o struct{ MasterKeyOut string }
	var at datadir.SharedStore
	if err := s.Flags.Into(&o, &at); err != nil {
		return err
	}
	file, err := s.Local.RotateMaster(ctx, data, at, o.MasterKeyOut)
	if err != nil {
		return err
	}
	if at.Store != "" {
		s.Printf("The shared store is sealed under the new master key in %s.\nPut that key on each gateway's machine, then start the "+
			"gateways. Keep a copy of it on another machine. Older backups need the key from before. The nodes of rqlite keep what was sealed under "+
			"that one in their logs, until they drop them by themselves.\n", file)
		return nil
	}
	s.Printf("The database in %s is sealed under the new master key in %s.\nKeep a copy of the key on another machine. "+
		"Older backups need the key from before.\n", data.Data, file)
	if installed := datadir.Installed(s.Machine.Root); installed != "" && datadir.Same(installed, data.Data) &&
		!datadir.Same(file, filepath.Join(s.Machine.Root, datadir.ServiceKey)) {
		fmt.Fprintf(s.Stdout, "The installed service reads %s. Put the new key there before it starts: install -m 600 %s %s\n",
			datadir.ServiceKey, paste.Quote(datadir.Absolute(file)), datadir.ServiceKey)
	}
	return nil
}

func keyDrop(ctx context.Context, s *cli.Session) error {
	return distrust(ctx, s, "key", api.PathKey)
}

// trustFlag is the flag of the commands that move the trust key.
type trustFlag struct{ Trust bool }

func keyExport(ctx context.Context, s *cli.Session, o trustFlag) error {
	return moveTrust(ctx, s, o, s.Local.ExportTrust, "The trust key is in %s and nowhere else: keep two copies of it in safe places, not "+
		"connected.\n")
}

func keyImport(ctx context.Context, s *cli.Session, o trustFlag) error {
	return moveTrust(ctx, s, o, s.Local.ImportTrust, "The gateway has the trust key again; %s is still there.\n")
}

// moveTrust asks for --trust although there is one key to move only: a command that takes a key out of the gateway has to name it.
func moveTrust(ctx context.Context, s *cli.Session, o trustFlag, move func(context.Context, datadir.Files, string) error,
	said string) error {
	if !o.Trust {
		return cli.Usagef("add --trust", "muster %s moves the trust key out of the gateway or back: say so with --trust", s.Name)
	}
	data, err := s.DataFiles()
	if err != nil {
		return err
	}
	if err := move(ctx, data, s.Words[0]); err != nil {
		return err
	}
	fmt.Fprintf(s.Stdout, said, screen.Printable(s.Words[0]))
	return nil
}

// showDraft prints what is to be signed. The gateway wrote the draft, and the person who signs it must see what it says.
func showDraft(s *cli.Session, payload []byte) error {
	var set wire.TrustSet
	if err := sign.DecodeStrict(payload, &set); err != nil {
		return fmt.Errorf("the gateway's draft is no trust set: %w", err)
	}
	shown := struct {
		Number      int64    `json:"number"`
		TrustDomain string   `json:"trust_domain"`
		Roots       []string `json:"root_pins"`
		Answer      []string `json:"answer_keys"`
		Task        []string `json:"task_keys"`
		Release     []string `json:"release_keys"`
		Next        string   `json:"signs_the_next_set"`
	}{set.Number, set.TrustDomain, pins(set.Roots), keyIDs(set.AnswerKeys), keyIDs(set.TaskKeys), keyIDs(set.ReleaseKeys),
		keyIDs([]string{set.TrustKey})[0]}
	text, err := json.MarshalIndent(shown, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Stderr, "signing this set:\n%s\n", screen.Printable(string(text)))
	return err
}

func keyIDs(keys []string) []string {
	ids := make([]string, 0, len(keys))
	for _, text := range keys {
		id := "no key"
		if key, err := sign.DecodeKey(text); err == nil {
			id = sign.KeyID(key)
		}
		ids = append(ids, id)
	}
	return ids
}
