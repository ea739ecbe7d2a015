package sqlite

import "net/url"

// dataSource is the driver's name of the database. The pragmas are part of it, so that every connection of a pool has them.
func (o Options) dataSource(readOnly bool) string {
	pragmas := []string{
		"busy_timeout(10000)", // the command line may open the same file
		"journal_mode(WAL)",   // readers never wait for the writer
	}
	if o.Lax {
		// A new file must know auto_vacuum before anything else is written into it.
		pragmas = append([]string{"auto_vacuum(INCREMENTAL)"}, pragmas...)
		pragmas = append(pragmas, "synchronous(NORMAL)")
	} else {
		pragmas = append(pragmas, "synchronous(FULL)") // a commit is on disk before it is acknowledged
	}
	pragmas = append(pragmas,
		"foreign_keys(0)",              // batches check what must exist; no row that others refer to is ever deleted
		"temp_store(MEMORY)",           // no copies of rows in /tmp
		"cache_size(-16384)",           // KiB for each connection
		"wal_autocheckpoint(4000)",     // pages; a page that is written often goes into the database file less often
		"journal_size_limit(67108864)", // bytes to which the -wal file is cut after a checkpoint
	)
	if readOnly {
		pragmas = append(pragmas, "query_only(1)")
	}
	source := url.URL{Scheme: "file", Path: o.Path, RawQuery: url.Values{"_pragma": pragmas}.Encode()}
	return source.String()
}
