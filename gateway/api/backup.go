package api

// The forms of a backup, and the parameter that asks for the second one.
const (
	BackupType        = "application/vnd.sqlite3" // the database alone
	BackupArchiveType = "application/x-tar"       // see package archive
	BackupRegistry    = "registry"
)
