package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"payonce/ledger"
)

// LedgerSetting says where a ledger is.
type LedgerSetting struct {
	Name string
	URL  Secret
}

// entryStart matches where an entry of LEDGERS begins: a name and the scheme of its URL. A comma that is not followed
// by one belongs to the URL before it, which may name several hosts.
var entryStart = regexp.MustCompile(`(?:^|,)\s*([^=,/@?&\s]*)\s*=\s*postgres(?:ql)?://`)

const ledgersForm = "it must be like us=postgres://USER:PASSWORD@HOST:PORT/DATABASE,eu=postgres://…"

// parseLedgers reads "us=postgres://…,eu=postgres://…". The error says what is wrong without any part of a URL.
func parseLedgers(s string) ([]LedgerSetting, error) {
	starts := entryStart.FindAllStringSubmatchIndex(s, -1)
	if len(starts) == 0 || strings.TrimSpace(s[:starts[0][0]]) != "" {
		return nil, errors.New(ledgersForm)
	}
	settings := make([]LedgerSetting, 0, len(starts))
	for i, start := range starts {
		end := len(s)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		name := s[start[2]:start[3]]
		if err := ledger.CheckLedgerName("name", name); err != nil {
			// The text before = is not part of a URL, and is cut short if it is long.
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
		if slices.ContainsFunc(settings, func(other LedgerSetting) bool { return other.Name == name }) {
			return nil, fmt.Errorf("the ledger %s is there twice", name)
		}
		_, dsn, _ := strings.Cut(s[start[2]:end], "=")
		dsn = strings.TrimSpace(dsn)
		if err := checkEntryURL(dsn); err != nil {
			return nil, fmt.Errorf("the ledger %s: %w", name, err)
		}
		settings = append(settings, LedgerSetting{Name: name, URL: Secret(dsn)})
	}
	return settings, nil
}

// checkEntryURL is checkURL for one of several: a comma after the hosts is most likely the start of an entry that could
// not be told from the rest of this one.
func checkEntryURL(dsn string) error {
	_, afterScheme, _ := strings.Cut(dsn, "://")
	_, afterHosts, _ := strings.Cut(afterScheme, "/")
	if strings.Contains(afterHosts, ",") {
		return errors.New("there is a comma after the hosts of its URL, and no NAME=postgres://… follows it: " +
			"write the next entry in that form, or %2C for a comma that belongs to the URL")
	}
	return checkURL(dsn)
}

// checkURL says whether a database URL can be read. Its error has no part of the URL but the name of a file: where a
// malformed one hides its password can't be known.
func checkURL(dsn string) error {
	if scheme, rest, ok := strings.Cut(dsn, "://"); ok && strings.HasPrefix(scheme, "postgres") && strings.Contains(rest, "://") {
		// The name of a file at the end of the first URL would go on into the second, password and all.
		return errors.New("there is a second URL in its URL: separate two entries by a comma, and write %3A for a colon that belongs to the URL")
	}
	_, err := pgconn.ParseConfig(dsn)
	var file *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &file):
		return fmt.Errorf("a file that its URL names: %w", file)
	default:
		return errors.New("its URL can't be read: it must be like " +
			"postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full, with special characters of the user and the " +
			"password percent-encoded (@ is %40, / is %2F)")
	}
}
