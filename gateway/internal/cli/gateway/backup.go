package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"muster/agent/disk"
	"muster/gateway/internal/backup/archive"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/client"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/paste"
)

// usualAdoption is how long a restored gateway takes certificates over that were issued since the backup.
const usualAdoption = 72 * time.Hour

// BackupCommands copy a gateway's database and bring it back.
func BackupCommands() []cli.Command {
	return []cli.Command{
		{Name: "backup", Args: "FILE", Least: 1, Most: 1, Flags: []string{"without-registry"}, Run: cli.With(backup),
			Summary: "copy the database and the registry of a running gateway",
			Text: "The copy is consistent, however much is going on, and made by the gateway itself; FILE (mode 0600) must not be there " +
				"yet. It has the releases of agents and whatever else was pushed to the registry; --without-registry leaves that out, " +
				"for a small copy. Recordings of sessions are not in it: copy the folder DATA/recordings beside it. " +
				"The secrets in the backup are sealed: it is of use only with the master key, which is NOT in it. " +
				"Keep a copy of the master key too, and apart from the backups: whoever has both has the gateway.",
			Examples: []string{"muster backup /backup/muster-$(date +%F).tar"}},
		{Name: "restore", Args: "FILE", Least: 1, Most: 1, Run: cli.With(restore),
			Flags: []string{"force", "adopt-for", "master-key-file", "trust-key", "store", "store-ca", "store-cert", "store-key",
				"store-password-file"},
			Summary: "bring a gateway back from a backup",
			Text: cli.OfflineText + " It needs the master key that the backup was sealed with: put that key in its place first, or name " +
				"its file with --master-key-file. It refuses to replace a database; with --force it moves that one aside. If the " +
				"service is installed, it puts the key where the service reads it.\n\n" +
				"Open tokens end, because nobody knows which of them were used since. Nodes that were enrolled before the backup come " +
				"back by themselves: for 72 hours (--adopt-for) a certificate that was issued since the backup is taken over, once " +
				"for a node, with an event. Machines that joined since the backup need a new token. " +
				"What was retired, banned or revoked since the backup is good again, accounts and their API tokens too: look through " +
				"nodes and accounts before others reach the gateway.\n\n" +
				"With --store it brings back the store that several gateways share, and no gateway has to be stopped: the active one loses its " +
				"lease and ends, its service starts it again, and one of them serves what was restored. --data is that of the gateway here.",
			Examples: []string{"muster restore /backup/muster-2026-11-21.tar", "muster restore backup.tar --data /var/lib/muster --force",
				"muster restore backup.tar --store rqlite://10.0.0.1:4001,10.0.0.2:4001,10.0.0.3:4001 --store-ca ca.crt --force"}},
		{Name: "store copy", Args: "FROM TO", Least: 2, Most: 2, Run: cli.With(storeCopy),
			Flags:   []string{"force", "master-key-file", "store-ca", "store-cert", "store-key", "store-password-file"},
			Summary: "copy a gateway's database to rqlite, or back",
			Text: "FROM and TO are a gateway's data directory and the address of a store that several gateways share, as muster serve --store has " +
				"it. No gateway may run on either. Both have the same master key: it has to open FROM, and what is at TO. It refuses to replace a " +
				"database; with --force it keeps that one. FROM stays as it is, and is the older one from then on.\n\n" +
				"The number of rows of each table is compared at the end. If the command is cut off, give it again. It copies the database alone: " +
				"what was pushed to the registry, recordings and samples stay in the data directory, so start the first gateway on the store with " +
				"that --data. muster help standby says more.",
			Examples: []string{"muster store copy /var/lib/muster rqlite://10.0.0.1:4001,10.0.0.2:4001 --store-ca ca.crt",
				"muster store copy rqlite://127.0.0.1:4001 ./new --master-key-file master.key"}},
	}
}

// backup leaves no file behind where the copy is not whole: half a database would look like a backup.
func backup(ctx context.Context, s *cli.Session, o struct{ WithoutRegistry bool }) error {
	file := s.Words[0]
	if slices.Contains([]string{"ls", "list", "show", "status"}, file) {
		return cli.Usagef("muster doctor says when the newest backup was begun; for a file of this name write ./"+file,
			"muster backup has no command %s: it writes a backup into a file", file)
	}
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	to, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, os.ErrExist):
		return fmt.Errorf("%s is there already and is left as it is; name another file", file)
	case errors.Is(err, os.ErrNotExist):
		return cli.Hinted("there is no folder "+filepath.Dir(file), "make it, or name a file in another folder")
	case errors.Is(err, os.ErrPermission):
		return cli.Hinted(err.Error(), "name a file in a folder that you may write to")
	case err != nil:
		return err
	}
	got, err := receive(ctx, c, o.WithoutRegistry, to)
	if err := errors.Join(err, disk.Steps(nil).Sync("the backup", to), to.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	if err := disk.Sync(filepath.Dir(file)); err != nil {
		return err
	}
	s.Printf("%s: %s.\nThe master key is not in it, and without that it is of no use: keep a copy of the key, apart "+
		"from this file.\n", file, got.said)
	return got.lacks()
}

// received is a backup that has come.
type received struct {
	archive.Summary
	said    string   // how large it is
	missing []string // some of the blobs that it lacks
	needed  []string // some of what needs them
}

// lacks is the error of a backup that lacks blobs. It is kept: all the rest is in it.
func (r received) lacks() error {
	if r.Lacks == 0 {
		return nil
	}
	names := strings.Join(r.missing, ", ")
	if more := r.Lacks - len(r.missing); more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	text := fmt.Sprintf("the backup lacks %s that the gateway's disk has lost or damaged: %s", screen.Plural(r.Lacks, "blob"), names)
	if len(r.needed) > 0 {
		text += "; they belong to " + screen.Printable(strings.Join(r.needed, ", "))
	}
	return cli.Hinted(text, "push that again from the same build, then make another backup: muster help backup")
}

// receive writes the backup. An archive is verified while it comes.
func receive(ctx context.Context, c *client.Client, withoutRegistry bool, to io.Writer) (received, error) {
	if withoutRegistry {
		size, err := c.Backup(ctx, to)
		return received{said: fmt.Sprintf("%d bytes, without the registry", size)}, err
	}
	read, written := io.Pipe()
	type verdict struct {
		received
		err error
	}
	verified := make(chan verdict, 1)
	go func() {
		var v verdict
		v.Summary, v.err = archive.Read(read, archive.Visitor{Missing: func(digests, needed []string) {
			v.missing = digests
			v.needed = needed
		}})
		_, _ = io.Copy(io.Discard, read) // what stands behind the end has to go somewhere
		verified <- v
	}()
	size, err := c.BackupAll(ctx, io.MultiWriter(to, written))
	written.Close()
	v := <-verified
	if err == nil && v.err != nil {
		err = fmt.Errorf("the backup that came is of no use: %w", v.err)
	}
	v.said = fmt.Sprintf("%d bytes: the database with %d, and %d blobs of the registry with %d", size, v.Database, v.Blobs, v.Bytes)
	return v.received, err
}

func restore(ctx context.Context, s *cli.Session, r datadir.Restore) (err error) {
	r.File, r.AdoptFor = s.Words[0], cmp.Or(r.AdoptFor, usualAdoption)
	next, withRegistry := "Start the gateway", ", with its registry"
	if r.Files, err = s.DataFiles(); err != nil {
		return err
	}
	done, err := s.Local.Restore(ctx, r)
	if err != nil {
		return err
	}
	where := r.Data
	if r.Shared.Store != "" {
		where = r.Shared.Store
		withRegistry = ""
		next = "Wait until a gateway is active (muster gateway ls)"
	}
	s.Printf("%s is as it was on %s. Open tokens have ended.\n", where, screen.Stamp(&done.BackupAt))
	if done.Blobs > 0 {
		fmt.Fprintf(s.Stdout, "The registry has the %d blobs of the backup.\n", done.Blobs)
	}
	if done.LostBlobs > 0 {
		fmt.Fprintf(s.Stdout, "The registry has lost %d blobs: they are not in the backup, and not here. Push what needs them again: "+
			"muster release ls.\n", done.LostBlobs)
	}
	if done.Aside != "" {
		s.Printf("The database that was there is in %s%s.\n", done.Aside, withRegistry)
	}
	if done.AlertsAway {
		fmt.Fprintln(s.Stdout, "What receivers of alerts were told since the backup cannot be taken over from there, so they may hear of an "+
			"alert twice, and miss the end of one.")
	}
	restoredKey(s, r.Data, done)
	s.Printf("Certificates that were issued since then are taken over until %s.\n"+next+", and look through muster account ls "+
		"and muster node ls before others reach it.\n", screen.Stamp(&done.AdoptUntil))
	if done.TrustKeyAway {
		fmt.Fprintln(s.Stdout, "The trust key is kept out of the gateway. If keys or roots were rotated since the backup, restore again "+
			"with --force --trust-key FILE: nodes take no lower set than the one that they know.")
	}
	return nil
}

// restoredKey says where the master key is, where that matters for the next start.
func restoredKey(s *cli.Session, data string, done datadir.Restored) {
	if done.KeyFile != "" {
		s.Printf("The master key is in %s, where the installed service reads it.\n", done.KeyFile)
	}
	if done.KeyAside != "" {
		s.Printf("The key that was there opens the database of before; it is in %s.\n", done.KeyAside)
	}
	if done.KeyToName != "" {
		flags := "--data " + paste.Quote(datadir.Absolute(data)) + " --master-key-file " +
			paste.Quote(datadir.Absolute(done.KeyToName))
		s.Printf("The gateway needs the master key in %s to start: muster serve %s\nOr make it a service, which copies the key to %s: "+
			"sudo muster service install %s\n", screen.Printable(done.KeyToName), flags, datadir.ServiceKey, flags)
	}
}
