package statement

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Path is where a statement is kept under a folder: LEDGER/ACCOUNT/FROM_TO_ASSET.csv, or .xml. Two statements have the same
// path only if they are of the same account, asset, period and format. The names have no colon, which a share for Windows,
// tar and scp take for something else: it is %3A, as in a URL.
func Path(dir string, s *Statement) string {
	extension := ".csv"
	if s.Format == FormatCamt053 {
		extension = ".camt053.xml"
	}
	p := &s.Period
	name := pathTime(p.From) + "_" + pathTime(p.To) + "_" + p.Asset.Code() + "-" + strconv.Itoa(p.Asset.Scale()) + extension
	return filepath.Join(dir, s.Ledger, strings.ReplaceAll(p.Account, ":", "%3A"), name)
}

// pathTime is a date for its first moment in UTC, and the whole time for any other.
func pathTime(at time.Time) string {
	if isMidnight(at) {
		return at.UTC().Format(time.DateOnly)
	}
	return at.UTC().Format("20060102T150405.999999Z")
}
