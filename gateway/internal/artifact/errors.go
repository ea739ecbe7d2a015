package artifact

import (
	"errors"
	"fmt"
)

// Codes of errors. The first ones are those of the OCI distribution specification, the last two are Docker's.
const (
	CodeBlobUnknown         = "BLOB_UNKNOWN"
	CodeBlobUploadInvalid   = "BLOB_UPLOAD_INVALID"
	CodeBlobUploadUnknown   = "BLOB_UPLOAD_UNKNOWN"
	CodeDigestInvalid       = "DIGEST_INVALID"
	CodeManifestBlobUnknown = "MANIFEST_BLOB_UNKNOWN"
	CodeManifestInvalid     = "MANIFEST_INVALID"
	CodeManifestUnknown     = "MANIFEST_UNKNOWN"
	CodeNameInvalid         = "NAME_INVALID"
	CodeNameUnknown         = "NAME_UNKNOWN"
	CodeSizeInvalid         = "SIZE_INVALID" // too large: always status 413
	CodeDenied              = "DENIED"       // over the quota, or held
	CodeTooManyRequests     = "TOOMANYREQUESTS"
	CodeRangeInvalid        = "RANGE_INVALID" // a chunk at the wrong place; the upload goes on: status 416
	CodeUnavailable         = "UNAVAILABLE"   // the disk is full or broken, or another gateway is not there: status 503
)

// Error is the registry's refusal of a request. Every other error is a fault of the machine; its text is only for the log.
type Error struct {
	Code    string
	Message string // for a person: what to do
	Detail  any    // encodes as JSON; nil: none
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// refuse makes an error about something that the caller gave.
func refuse(code, message, given string) *Error {
	return &Error{Code: code, Message: fmt.Sprintf("%s: not %q", message, short(given))}
}

// missing makes an error about something that is not there.
func missing(code, what, name string) *Error {
	name = short(name)
	return &Error{Code: code, Message: fmt.Sprintf("there is no %s %q here", what, name), Detail: map[string]string{"name": name}}
}

// short cuts a text that anybody may have made to a length that fits in a line.
func short(text string) string {
	const most = 300
	if len(text) > most {
		return text[:most]
	}
	return text
}

// Is reports whether an error has a code.
func Is(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}
