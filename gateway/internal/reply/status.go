package reply

import (
	"net/http"

	"muster/agent/wire"
)

// Status returns the HTTP status of a refusal's code. A code that it does not know is a fault of the gateway, and is answered with 500.
func Status(code string) int {
	switch code {
	case wire.CodeBadRequest, wire.CodePlaintextSecret, wire.CodeBadName, wire.CodeBadLabel, wire.CodeBadCSR, wire.CodeBadDigest,
		wire.CodeWeakSecret, wire.CodeBadSelector, wire.CodeReservedKey, wire.CodeTaskTypeUnknown, wire.CodeTaskParamsInvalid,
		wire.CodeReleaseUnusable:
		return http.StatusBadRequest
	case wire.CodeBadAuthorization, wire.CodeUnknownCredential, wire.CodeBadMAC, wire.CodeNoIdentity, wire.CodeUnknownCertificate,
		wire.CodeSupersededRetry, wire.CodeIdentityMismatch, wire.CodeClockSkew, wire.CodeReplayed, wire.CodeStaleNonce,
		wire.CodeBadSignature, wire.CodeUnauthorized:
		return http.StatusUnauthorized
	case wire.CodeTokenExpired, wire.CodeTokenRevoked, wire.CodeTokenWrongRoute, wire.CodeTLSRequired, wire.CodeBanned, wire.CodeMTLSRequired,
		wire.CodeExpired, wire.CodeSuperseded, wire.CodeRevoked, wire.CodeRetired, wire.CodeWrongNode, wire.CodeIdentityConflict,
		wire.CodeForbidden, wire.CodeTaskForbidden:
		return http.StatusForbidden
	case wire.CodeNotFound, wire.CodeReleaseUnknown, wire.CodeChannelUnknown:
		return http.StatusNotFound
	case wire.CodeMethodNotAllowed:
		return http.StatusMethodNotAllowed
	case wire.CodeSlowBody:
		return http.StatusRequestTimeout
	case wire.CodeTokenUsed, wire.CodeNameInUse, wire.CodeKeyInUse, wire.CodeIllegalMove, wire.CodePSKLimit,
		wire.CodeAlreadyThere, wire.CodeTaskExpired, wire.CodeTaskFinished, wire.CodeClaimMismatch,
		wire.CodeReleaseInUse, wire.CodeNoCapacity, wire.CodeOverQuota, wire.CodeSignatureWanted, wire.CodeSessionBroken:
		return http.StatusConflict
	case wire.CodeSessionOver:
		return http.StatusGone
	case wire.CodeBodyTooLarge:
		return http.StatusRequestEntityTooLarge
	case wire.CodeBadRange:
		return http.StatusRequestedRangeNotSatisfiable
	case wire.CodeTooManyRequests:
		return http.StatusTooManyRequests
	case wire.CodeProviderFailed:
		return http.StatusBadGateway
	case wire.CodeUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
