package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/client"
	"muster/gateway/internal/datadir"
)

func keyCommands() []command {
	return []command{
		{name: "key ls", options: []string{"output"}, run: keyList,
			summary: "list the keys that nodes trust", text: "A key that is online has its private half in the gateway's database. The trust key signs the sets that name all the others.",
			examples: []string{"muster key ls"}},
		{name: "key rotate", options: []string{"answer", "task", "release", "trust", "now", "trust-key", "master", "master-key-file", "master-key-out"}, run: keyRotate,
			summary: "replace one of the keys",
			text: "--answer, --task, --release and --trust work on the running gateway: the new key goes into the next signed set, the one before stays good beside it, and answers are signed with the new one a quarter of an hour later, when nodes have heard of it. --now is for a key that has leaked: nodes stop trusting it at once. A node that slept through any number of rotations fetches the sets and follows them.\n\n" +
				"--master seals all secrets of the database under a new master key. " + offlineText + " The new key takes the place of the one before; where that is not a file that can be replaced, --master-key-out FILE says where it goes. A crash at any point loses nothing: the same command, or the next start, goes on. Older backups need the key from before: keep a copy of it for them.",
			examples: []string{"muster key rotate --answer", "muster key rotate --answer --now", "muster key rotate --master", "muster key rotate --release --trust-key /media/usb/trust.key"}},
		{name: "key drop", args: "ID", least: 1, most: 1, options: []string{"trust-key", "yes"}, run: keyDrop,
			summary: "make nodes stop trusting a key", text: "The last key of a role stays. It asks first unless --yes is given.", examples: []string{"muster key drop 4f9a0c2112345678"}},
		{name: "key export", args: "FILE", least: 1, most: 1, options: []string{"trust", "master-key-file"}, run: keyExport,
			summary:  "move the trust key out of the gateway into a file",
			text:     "From then on whatever changes what nodes believe takes --trust-key FILE, which signs here and does not show the key to the gateway. The file has mode 0600 and is not encrypted. " + offlineText,
			examples: []string{"muster key export --trust /media/usb/trust.key"}},
		{name: "key import", args: "FILE", least: 1, most: 1, options: []string{"trust", "master-key-file"}, run: keyImport,
			summary: "put the trust key back into the gateway", text: "The file is as muster key export wrote it. " + offlineText,
			examples: []string{"muster key import --trust /media/usb/trust.key"}},
	}
}

func keyList(ctx context.Context, s *session) error {
	c, format, err := s.begin(ctx)
	if err != nil {
		return err
	}
	ca, err := c.CA(ctx)
	if err != nil || format == "json" {
		return firstError(err, func() error { return s.writeJSON(ca) })
	}
	var rows [][]string
	for _, key := range ca.Keys {
		since := "-"
		if key.Since != nil {
			since = age(s.now().Sub(*key.Since)) + " ago"
		}
		rows = append(rows, []string{orUnknown(key.Role), orUnknown(key.ID), since, online(key.Online), yesNo(key.InUse)})
	}
	return s.list(format, []column{{name: "ROLE"}, {name: "ID"}, {name: "SINCE", rank: 2}, {name: "KEY", rank: 1}, {name: "SIGNS", rank: 3}}).write(rows)
}

func keyRotate(ctx context.Context, s *session) error {
	var roles []string
	for _, role := range []string{"answer", "task", "release", "trust", "master"} {
		on, err := s.options.flag(role)
		if err != nil {
			return err
		}
		if on {
			roles = append(roles, role)
		}
	}
	if len(roles) != 1 {
		return usagef("one of --answer, --task, --release, --trust, --master", "muster key rotate: which key?")
	}
	if roles[0] == "master" {
		return s.rotateMaster(ctx)
	}
	now, err := s.options.flag("now")
	if err != nil {
		return err
	}
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	change, err := c.RotateKey(ctx, client.RotateRequest{Role: roles[0], Now: now})
	if err != nil {
		return err
	}
	return s.publish(ctx, c, change)
}

func (s *session) rotateMaster(ctx context.Context) error {
	data, err := s.dataFiles()
	if err != nil {
		return err
	}
	file, err := s.Local.RotateMaster(ctx, data, s.options.text("master-key-out"))
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Stdout, "The database in %s is sealed under the new master key in %s.\nKeep a copy of the key on another machine. Older backups need the key from before.\n", printable(data.Data), printable(file))
	if installed := datadir.Installed(s.Machine.Root); installed != "" && datadir.Same(installed, data.Data) && !datadir.Same(file, filepath.Join(s.Machine.Root, datadir.ServiceKey)) {
		fmt.Fprintf(s.Stdout, "The installed service reads %s. Put the new key there before it starts: install -m 600 %s %s\n",
			datadir.ServiceKey, QuoteWord(datadir.Absolute(file)), datadir.ServiceKey)
	}
	return nil
}

func keyDrop(ctx context.Context, s *session) error {
	return s.distrust(ctx, "key", (*client.Client).DropKey)
}

func keyExport(ctx context.Context, s *session) error {
	return s.moveTrust(ctx, s.Local.ExportTrust, "The trust key is in %s and nowhere else: keep two copies of it in safe places, not connected.\n")
}

func keyImport(ctx context.Context, s *session) error {
	return s.moveTrust(ctx, s.Local.ImportTrust, "The gateway has the trust key again; %s is still there.\n")
}

func (s *session) moveTrust(ctx context.Context, move func(context.Context, DataFiles, string) error, said string) error {
	if on, err := s.options.flag("trust"); err != nil || !on {
		return firstError(err, func() error {
			return usagef("add --trust", "muster %s moves the trust key out of the gateway or back: say so with --trust", s.command.name)
		})
	}
	data, err := s.dataFiles()
	if err != nil {
		return err
	}
	if err := move(ctx, data, s.args[0]); err != nil {
		return err
	}
	fmt.Fprintf(s.Stdout, said, printable(s.args[0]))
	return nil
}

// showDraft says what is about to be signed. It was drafted by the gateway, and whoever signs it answers for it.
func (s *session) showDraft(payload []byte) error {
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
	}{set.Number, set.TrustDomain, pins(set.Roots), keyIDs(set.AnswerKeys), keyIDs(set.TaskKeys), keyIDs(set.ReleaseKeys), keyIDs([]string{set.TrustKey})[0]}
	text, err := json.MarshalIndent(shown, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Stderr, "signing this set:\n%s\n", printable(string(text)))
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

// readLine reads an answer of a person.
func (s *session) readLine() (string, error) {
	answer, err := bufio.NewReader(s.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimSpace(answer), nil
}
