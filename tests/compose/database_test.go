package compose

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"payonce/internal/serve"
)

// database is what the init script makes: it is run for real, with a psql that only writes down what it is told.
type database struct {
	passwords map[string]string          // by role
	owners    map[string]string          // by database
	connect   map[string]map[string]bool // by database: the roles that are granted it
}

// stub stands in for psql: it writes its arguments and its input to a file.
const stub = `#!/bin/sh
{ printf '%s\n' "$@"; echo; cat; } >>"$PSQL_TOLD"
`

var (
	createRole     = regexp.MustCompile(`create role (\w+) login password '([^']*)'`)
	createDatabase = regexp.MustCompile(`create database (\w+) owner (\w+)`)
	grantConnect   = regexp.MustCompile(`grant connect on database ([\w, ]+) to (\w+)`)
)

func (s *stack) readDatabase(ctx context.Context) {
	s.database = database{
		passwords: make(map[string]string),
		owners:    make(map[string]string),
		connect:   make(map[string]map[string]bool),
	}
	told, err := s.runInitScript(ctx)
	if err != nil {
		s.problem("%s: %v", initScript, err)
		return
	}
	arguments, statements, _ := strings.Cut(told, "\n\n")
	if !strings.Contains(arguments, "ON_ERROR_STOP=1") {
		s.problem("%s goes on after an error", initScript)
	}
	for _, variable := range regexp.MustCompile(`(?m)^(\w+)=(.*)$`).FindAllStringSubmatch(arguments, -1) {
		statements = strings.ReplaceAll(statements, ":'"+variable[1]+"'", "'"+variable[2]+"'")
	}
	if missing := regexp.MustCompile(`:'\w+'`).FindString(statements); missing != "" {
		s.problem("%s: nothing sets %s", initScript, missing)
	}
	for _, role := range createRole.FindAllStringSubmatch(statements, -1) {
		s.database.passwords[role[1]] = role[2]
	}
	for _, created := range createDatabase.FindAllStringSubmatch(statements, -1) {
		s.database.owners[created[1]] = created[2]
		s.database.connect[created[1]] = make(map[string]bool)
	}
	for _, grant := range grantConnect.FindAllStringSubmatch(statements, -1) {
		for name := range strings.SplitSeq(grant[1], ",") {
			if roles, ok := s.database.connect[strings.TrimSpace(name)]; ok {
				roles[grant[2]] = true
			} else {
				s.problem("%s grants the right to connect to %s, which it does not create", initScript, name)
			}
		}
	}
}

// runInitScript runs the script with the variables of its service and returns what it tells psql.
func (s *stack) runInitScript(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp(binaries, "psql-")
	if err != nil {
		return "", err
	}
	script, told := filepath.Join(dir, "init.sh"), filepath.Join(dir, "told")
	if err := os.WriteFile(filepath.Join(dir, "psql"), []byte(stub), 0o700); err != nil {
		return "", err
	}
	if err := os.WriteFile(script, []byte(s.files[initScript]), 0o600); err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, "/bin/sh", script)
	command.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "PSQL_TOLD=" + told}
	for _, service := range s.services() {
		if mounted(service, initScript) {
			for name, v := range service.Environment {
				command.Env = append(command.Env, name+"="+*v)
			}
		}
	}
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	text, err := os.ReadFile(told)
	return string(text), err
}

// address is a database as a service is told to reach it.
type address struct {
	ledger, host, role, password, database string
}

// checkSettings holds the ledgers' addresses against the roles and databases that the init script makes, and the
// worker's against those that are migrated.
func (s *stack) checkSettings() {
	var (
		migrated   = make(map[string]address) // by ledger
		workers    = make(map[string]bool)    // roles that get rights
		ledgersIn  = make(map[string]bool)    // databases
		migrations int
	)
	for _, service := range s.services() {
		if s.commandOf(service) != "worker "+serve.CommandMigrate {
			continue
		}
		migrations++
		settings, err := serve.ReadMigrateSettings(environment(service))
		if err != nil {
			s.problem("%s: %v", service.Name, err)
			continue
		}
		workers[settings.WorkerRole] = true
		for _, ledger := range settings.Ledgers {
			at := s.checkLedger(service, ledger)
			migrated[at.ledger] = at
			ledgersIn[at.database] = true
			if s.database.owners[at.database] != at.role {
				s.problem("%s: ledger %s: %s does not own database %s", service.Name, at.ledger, at.role, at.database)
			}
		}
	}
	if migrations == 0 {
		s.problem("no service migrates the ledgers")
	}
	for _, service := range s.services() {
		if s.commandOf(service) != "worker "+serve.CommandRun {
			continue
		}
		settings, err := serve.ReadSettings(environment(service))
		if err != nil {
			s.problem("%s: %v", service.Name, err)
			continue
		}
		for _, ledger := range settings.Ledgers {
			at := s.checkLedger(service, ledger)
			owner, known := migrated[at.ledger]
			switch {
			case !known:
				s.problem("%s: ledger %s is migrated by nobody", service.Name, at.ledger)
			case owner.host != at.host || owner.database != at.database:
				s.problem("%s: ledger %s is in database %s, and migrated in %s", service.Name, at.ledger, at.database, owner.database)
			case owner.role == at.role:
				s.problem("%s: ledger %s: %s owns the tables: a worker must not be able to change what is written", service.Name, at.ledger, at.role)
			case !workers[at.role]:
				s.problem("%s: ledger %s: %s is given no rights: migrate gives them to %s",
					service.Name, at.ledger, at.role, strings.Join(slices.Sorted(maps.Keys(workers)), ", "))
			case !s.database.connect[at.database][at.role]:
				s.problem("%s: ledger %s: %s may not connect to database %s", service.Name, at.ledger, at.role, at.database)
			}
		}
	}
	for name, owner := range s.database.owners {
		if owner != temporalRole && !ledgersIn[name] {
			s.problem("database %s belongs to %s, and no ledger is in it", name, owner)
		}
	}
	s.checkTemporalStores()
}

// checkLedger takes a ledger's address apart and checks that what it names is made.
func (s *stack) checkLedger(service types.ServiceConfig, setting serve.LedgerSetting) address {
	at := address{ledger: setting.Name}
	dsn, err := url.Parse(string(setting.URL))
	if err != nil {
		s.problem("%s: ledger %s: its address is no URL", service.Name, setting.Name)
		return at
	}
	at.host, at.role, at.database = dsn.Host, dsn.User.Username(), strings.TrimPrefix(dsn.Path, "/")
	at.password, _ = dsn.User.Password()
	password, known := s.database.passwords[at.role]
	switch {
	case !known:
		s.problem("%s: ledger %s is reached as role %s, which %s does not create", service.Name, at.ledger, at.role, initScript)
	case password != at.password:
		s.problem("%s: ledger %s: the password of %s is not the one that %s sets", service.Name, at.ledger, at.role, initScript)
	}
	if _, ok := s.database.owners[at.database]; !ok {
		s.problem("%s: ledger %s is in database %s, which %s does not create", service.Name, at.ledger, at.database, initScript)
	}
	return at
}

// temporalRole is the role that Temporal's server and its tools use.
const temporalRole = "temporal"

// checkTemporalStores checks that Temporal finds its two databases, by the names that its image and schema.sh have for
// them, and that everyone who goes there says the right password.
func (s *stack) checkTemporalStores() {
	for _, name := range []string{"temporal", "temporal_visibility"} {
		if s.database.owners[name] != temporalRole {
			s.problem("%s does not create %s for %s", initScript, name, temporalRole)
		}
		if !regexp.MustCompile(`database=` + name + `\b`).MatchString(s.files[schemaScript]) {
			s.problem("%s makes no tables in %s", schemaScript, name)
		}
	}
	for _, service := range s.services() {
		for role, password := range map[string]string{"POSTGRES_USER": "POSTGRES_PWD", "SQL_USER": "SQL_PASSWORD"} {
			if name := value(service, role); name != "" && s.database.passwords[name] != value(service, password) {
				s.problem("%s: the password of %s is not the one that %s sets", service.Name, name, initScript)
			}
		}
	}
}

// lookup is a service's environment, for the code that reads it.
type lookup map[string]string

func environment(service types.ServiceConfig) lookup {
	all := make(lookup)
	for name := range service.Environment {
		all[name] = value(service, name)
	}
	return all
}

func (l lookup) Environ() []string {
	var all []string
	for name, v := range l {
		all = append(all, name+"="+v)
	}
	return all
}

func (l lookup) LookupEnv(name string) (string, bool) {
	v, ok := l[name]
	return v, ok
}
