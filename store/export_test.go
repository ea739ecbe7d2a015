package store

import "io/fs"

// Migrations are the real migrations.
func Migrations() (fs.FS, error) { return migrations() }

// ReadAll reads one column of each kind from the values of a row and returns the row's error.
func ReadAll(values ...any) error {
	r := row{Values: values}
	var document map[string]string
	_ = r.Text()
	_ = r.Number()
	_ = r.Flag()
	_ = r.Time()
	_ = r.Maybe()
	_ = r.Bytes()
	r.Document(&document)
	return r.Err
}

// CertificateQueries are what is looked for again and again among the certificates, by the index that finds it.
func CertificateQueries() map[string]string {
	return map[string]string{"certificates_renewal": overdue, "certificates_overdue": expiredNodes, "certificates_ended": longEnded}
}

// WaitingQuery counts the tasks that wait for one node.
func WaitingQuery() string { return waitingTasks("n").SQL }
