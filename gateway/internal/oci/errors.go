package oci

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"muster/gateway/internal/account/secret"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/reply"
)

// Codes beside those of package artifact. The last two are Docker's.
const (
	codeUnauthorized = "UNAUTHORIZED"
	codeUnsupported  = "UNSUPPORTED"
	codePage         = "PAGINATION_NUMBER_INVALID"
	codeUnknown      = "UNKNOWN"
)

// problem is one error as clients read it.
type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Detail  any    `json:"detail,omitempty"`
}

// Status returns the HTTP status of a code. A code that it does not know is a fault of the gateway.
func Status(code string) int {
	switch code {
	case artifact.CodeBlobUploadInvalid, artifact.CodeDigestInvalid, artifact.CodeManifestBlobUnknown, artifact.CodeManifestInvalid,
		artifact.CodeNameInvalid, codePage:
		return http.StatusBadRequest
	case codeUnauthorized:
		return http.StatusUnauthorized
	case artifact.CodeDenied:
		return http.StatusForbidden
	case artifact.CodeBlobUnknown, artifact.CodeBlobUploadUnknown, artifact.CodeManifestUnknown, artifact.CodeNameUnknown:
		return http.StatusNotFound
	case codeUnsupported:
		return http.StatusMethodNotAllowed
	case artifact.CodeSizeInvalid:
		return http.StatusRequestEntityTooLarge
	case artifact.CodeRangeInvalid:
		return http.StatusRequestedRangeNotSatisfiable
	case artifact.CodeTooManyRequests:
		return http.StatusTooManyRequests
	case artifact.CodeUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// fail answers with an error: one of package artifact, one of a body, or one of the gate. A change of mind of the client is no fault of
// the gateway, so it does not go to the log.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	defer linger(w, r)
	var known *artifact.Error
	var cut *brokenBody
	switch {
	case errors.As(err, &cut):
		w.Header().Set("Connection", "close")
		status := http.StatusBadRequest
		if errors.Is(cut, os.ErrDeadlineExceeded) {
			status = http.StatusRequestTimeout
		}
		write(w, status, problem{Code: artifact.CodeBlobUploadInvalid, Message: "the body broke off before its end: go on where it ended"})
	case errors.As(err, &known):
		status := Status(known.Code)
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		write(w, status, problem{Code: known.Code, Message: secret.Redact(known.Message), Detail: known.Detail})
	default:
		status, answer := s.Info.Answer(err)
		text := answer.Error.Message + ": " + answer.Error.Hint
		if answer.RequestID != "" {
			text += " " + answer.RequestID
		}
		write(w, status, problem{Code: codeOf(status), Message: text})
	}
}

// codeOf is the code for a refusal of another package, by its status.
func codeOf(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return codeUnauthorized
	case http.StatusForbidden, http.StatusBadRequest: // a secret in a URL is the one bad request that the gate knows
		return artifact.CodeDenied
	case http.StatusTooManyRequests:
		return artifact.CodeTooManyRequests
	case http.StatusServiceUnavailable:
		return artifact.CodeUnavailable
	}
	return codeUnknown
}

// write sends one error.
func write(w http.ResponseWriter, status int, p problem) {
	h := w.Header()
	if status != http.StatusUnauthorized {
		h.Del("WWW-Authenticate")
	}
	for _, name := range [...]string{headerDigest, "ETag", "Last-Modified", "Location"} { // of an answer that did not come about
		h.Del(name)
	}
	reply.Write(w, status, reply.JSON(map[string][]problem{"errors": {p}}))
}

// Bounds of what is read of a body that nobody wants.
const (
	lingerTime  = 5 * time.Second
	lingerBytes = 64 << 20
)

// linger reads what the client still sends, after it was told why its blob is not taken. Without that the connection would be reset under
// the client's hands, and many clients then show the reset instead of the answer. HTTP/2 ends the one stream by itself.
func linger(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if r.ProtoMajor != 1 || r.Body == nil || r.Body == http.NoBody || control.Flush() != nil {
		return
	}
	_ = control.SetReadDeadline(time.Now().Add(lingerTime)) // the kernel's clock
	_, _ = io.CopyN(io.Discard, r.Body, lingerBytes)        // the answer is out: nobody wants to know
}

// answersEarly lets an answer go out before the whole body is here.
func answersEarly(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && r.Body != nil && r.Body != http.NoBody {
		_ = http.NewResponseController(w).EnableFullDuplex() // a writer of a test cannot
	}
}

// brokenBody is why the rest of a body did not come. It sets the peer's faults apart from those of the disk.
type brokenBody struct{ error }

func (b *brokenBody) Unwrap() error { return b.error }
