package wire

import "time"

// Error is the body of every refusal. Codes are only added, never changed or removed, because old agents act on them. A proven refusal
// may carry Time and Epoch: with them the agent corrects its clock and its nonces.
type Error struct {
	Error     ErrorDetail `json:"error"`
	Time      *time.Time  `json:"time,omitempty"`
	Epoch     string      `json:"epoch,omitempty"`
	RequestID string      `json:"request_id,omitempty"`
}

// ErrorDetail says what is wrong and what to do next.
type ErrorDetail struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`

	RetrySeconds int `json:"retry_seconds,omitempty"` // after so long the same request may be granted; 0: time alone changes nothing
}

// Error makes a detail an error. The gateway's parts return it, and the agent shows the one that it was given.
func (d *ErrorDetail) Error() string {
	if d.Hint == "" {
		return d.Message
	}
	return d.Message + " (" + d.Hint + ")"
}

// Refuse makes the refusal that a part of the gateway answers with: what is wrong, and what the caller does next.
func Refuse(code, message, hint string) *ErrorDetail {
	return &ErrorDetail{Code: code, Message: message, Hint: hint}
}

// Codes of refusals. The comment gives the HTTP status, and what the agent does or what is wrong.
const (
	CodeInternal         = "internal"           // 500: try again later
	CodeUnavailable      = "unavailable"        // 503: try again later
	CodeBadRequest       = "bad_request"        // 400: the body or a parameter is not what the route takes
	CodeBodyTooLarge     = "body_too_large"     // 413
	CodeNotFound         = "not_found"          // 404
	CodeMethodNotAllowed = "method_not_allowed" // 405
	CodeSlowBody         = "slow_body"          // 408: the body did not arrive in time
	CodeTooManyRequests  = "too_many_requests"  // 429: wait as Retry-After says
	CodeBadRange         = "bad_range"          // 416: the file ends before the part that was asked for

	CodePlaintextSecret   = "plaintext_secret"   // 400: a secret was sent instead of a proof of it
	CodeBadAuthorization  = "bad_authorization"  // 401: no or malformed Authorization
	CodeUnknownCredential = "unknown_credential" // 401: this gateway has no such token or PSK
	CodeBadMAC            = "bad_mac"            // 401: the secret is wrong, or the body was changed on its way
	CodeTokenUsed         = "token_used"         // 409: every use is taken
	CodeTokenExpired      = "token_expired"      // 403
	CodeTokenRevoked      = "token_revoked"      // 403
	CodeTokenWrongRoute   = "token_wrong_route"  // 403: not what this kind of token is for
	CodeTLSRequired       = "tls_required"       // 403: a secret came, or would go, over plain HTTP
	CodeNameInUse         = "name_in_use"        // 409
	CodeBadName           = "bad_name"           // 400
	CodeBadLabel          = "bad_label"          // 400
	CodeBadCSR            = "bad_csr"            // 400
	CodeKeyInUse          = "key_in_use"         // 409: this key already belongs to an identity; make a new one
	CodeBanned            = "banned"             // 403

	CodeNoIdentity         = "no_identity"         // 401: neither a client certificate nor a signature: sign
	CodeMTLSRequired       = "mtls_required"       // 403: signatures are not accepted here
	CodeUnknownCertificate = "unknown_certificate" // 401: not on record
	CodeExpired            = "certificate_expired" // 403: only renewal is open
	CodeSuperseded         = "superseded"          // 403: a later enrolment replaced this identity
	CodeSupersededRetry    = "superseded_retry"    // 401: use the newer certificate
	CodeRevoked            = "revoked"             // 403
	CodeRetired            = "retired"             // 403: the node was given back
	CodeWrongNode          = "wrong_node"          // 403: the path names another node
	CodeIdentityMismatch   = "identity_mismatch"   // 401: certificate and signature are of two identities
	CodeIdentityConflict   = "identity_conflict"   // 403: two machines use one identity

	CodeClockSkew    = "clock_skew"    // 401: the answer carries the gateway's time; sign again
	CodeReplayed     = "replayed"      // 401: sign again
	CodeStaleNonce   = "stale_nonce"   // 401: the answer carries the epoch; sign again
	CodeBadSignature = "bad_signature" // 401
	CodeBadDigest    = "bad_digest"    // 400: the body is not what was signed

	CodeUnauthorized = "unauthorized"  // 401: an account is needed
	CodeForbidden    = "forbidden"     // 403: the account lacks the scope
	CodeIllegalMove  = "illegal_move"  // 409: the node's state does not allow this
	CodePSKLimit     = "psk_limit"     // 409: two are live already
	CodeWeakSecret   = "weak_secret"   // 400
	CodeBadSelector  = "bad_selector"  // 400
	CodeReservedKey  = "reserved_key"  // 400
	CodeAlreadyThere = "already_there" // 409

	CodeTaskTypeUnknown   = "task_type_unknown"   // 400: there is no such type, or the node's agent is too old for it
	CodeTaskParamsInvalid = "task_params_invalid" // 400
	CodeTaskExpired       = "task_expired"        // 409: its time was over before the node began
	CodeTaskForbidden     = "task_forbidden"      // 403: the node's own policy does not allow it
	CodeTaskFinished      = "task_finished"       // 409: it has ended, in another way
	CodeClaimMismatch     = "claim_mismatch"      // 409: another identity has claimed it

	CodeSessionOver   = "session_over"   // 410: the session has ended; the message says why
	CodeSessionBroken = "session_broken" // 409: the bytes of a channel do not follow those before

	CodeReleaseUnknown  = "release_unknown"  // 404
	CodeReleaseUnusable = "release_unusable" // 400: its content is not what a node can install
	CodeReleaseInUse    = "release_in_use"   // 409: a channel or a pin needs it
	CodeNoCapacity      = "no_capacity"      // 409: nothing that was asked for is free now
	CodeOverQuota       = "over_quota"       // 409: the tenant would have more GPUs, or spend more, than it may
	CodeProviderFailed  = "provider_failed"  // 502: the company that rents the machine does not do it, or does not answer
	CodeChannelUnknown  = "channel_unknown"  // 404: nothing was ever promoted there
	CodeSignatureWanted = "signature_wanted" // 409: an operator's key has to sign this pointer, and the one that came is none or another
)
