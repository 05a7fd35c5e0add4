package httprail

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"payonce/internal/secret"
)

// signatureHeader has the time and the signature of a request or a callback: "t=1767225600,v1=<hex>".
const signatureHeader = "Payonce-Signature"

// What is signed begins with who says it, so that one's word can't be sent back as the other's.
const (
	signedRequest  = "payonce-request"
	signedCallback = "payonce-callback"
)

// mac is the HMAC-SHA256 of the parts, with a line break between two. Only the last part may have line breaks of its own.
func mac(key secret.Text, parts ...string) []byte {
	h := hmac.New(sha256.New, []byte(key.Reveal()))
	h.Write([]byte(strings.Join(parts, "\n")))
	return h.Sum(nil)
}

func signature(key secret.Text, at time.Time, who string, parts ...string) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return fmt.Sprintf("t=%s,v1=%s", t, hex.EncodeToString(mac(key, append([]string{who, t}, parts...)...)))
}

// errSignature is all that whoever sends a wrong signature is told.
var errSignature = errors.New("the signature is missing, wrong or too old")

// checkSignature says whether a signature is of these parts and of about now. There may be several signatures, so that a
// rail can change its secret: one must be right.
func checkSignature(key secret.Text, header string, now time.Time, who string, parts ...string) error {
	t, signatures, ok := parseSignature(header)
	if !ok || key == "" {
		return errSignature
	}
	seconds, err := strconv.ParseInt(t, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > clockSkewMax {
		return errSignature
	}
	want := mac(key, append([]string{who, t}, parts...)...)
	for _, one := range signatures {
		if got, err := hex.DecodeString(one); err == nil && hmac.Equal(got, want) {
			return nil
		}
	}
	return errSignature
}

// parseSignature takes the header apart: one t, and at least one v1. Fields that it doesn't know are left out.
func parseSignature(header string) (t string, signatures []string, ok bool) {
	for field := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		switch name {
		case "t":
			if t != "" {
				return "", nil, false
			}
			t = value
		case "v1":
			signatures = append(signatures, value)
		}
	}
	return t, signatures, t != "" && len(signatures) > 0
}
