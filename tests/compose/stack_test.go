package compose

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

const (
	composeFile      = "docker-compose.yml"
	dockerFile       = "Dockerfile"
	dockerIgnoreFile = ".dockerignore"
	envFile          = ".env.example"
	initScript       = "docker/postgres/init.sh"
	schemaScript     = "docker/temporal/schema.sh"
	namespaceScript  = "docker/temporal/namespace.sh"
	scrapeFile       = "docker/prometheus/prometheus.yml"
)

// files are the texts of the stack by their path below the module's root.
type files map[string]string

// stack is what one inspection looks at and what it finds wrong.
type stack struct {
	files    files
	code     *code
	project  *types.Project
	image    image
	database database
	problems []string
}

func (s *stack) problem(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// inspect returns everything that is wrong with the stack.
func inspect(ctx context.Context, texts files, code *code) []string {
	project, err := load(ctx, texts)
	if err != nil {
		return []string{err.Error()}
	}
	s := &stack{files: texts, code: code, project: project}
	s.readImage()
	s.readDatabase(ctx)

	s.checkImages()
	s.checkSettings()
	s.checkMounts()
	s.checkScripts()
	s.checkSearchAttributes()
	for _, service := range s.services() {
		s.checkLife(service)
		s.checkDependencies(service)
		s.checkPorts(service)
		s.checkReaches(service)
		s.checkVariables(service)
		if ours(service) {
			s.checkProgram(service)
		}
	}
	s.checkStart()
	return s.problems
}

// load reads the file as docker compose does, with every profile, and fails on what the specification does not know.
func load(ctx context.Context, texts files) (*types.Project, error) {
	directory, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	return loader.LoadWithContext(ctx,
		types.ConfigDetails{
			WorkingDir:  directory,
			ConfigFiles: []types.ConfigFile{{Filename: composeFile, Content: []byte(texts[composeFile])}},
			Environment: types.Mapping{},
		},
		loader.WithProfiles([]string{"*"}),
	)
}

func (s *stack) services() []types.ServiceConfig {
	services := make([]types.ServiceConfig, 0, len(s.project.Services))
	for _, name := range slices.Sorted(maps.Keys(s.project.Services)) {
		services = append(services, s.project.Services[name])
	}
	return services
}

func TestStack(t *testing.T) {
	t.Parallel()
	for _, problem := range inspect(t.Context(), readFiles(t), readCode(t)) {
		t.Error(problem)
	}
}

// Each row breaks one thing, and the inspection must say so. Some break others with it: a wrong name often does.
func TestInspectionFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	texts, code := readFiles(t), readCode(t)
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, 1, strings.Count(texts[fault.file], fault.old), "the fault no longer fits the file")
			planted := maps.Clone(texts)
			planted[fault.file] = strings.Replace(texts[fault.file], fault.old, fault.new, 1)
			found := strings.Join(inspect(t.Context(), planted, code), "\n")
			require.True(t, strings.Contains(found, fault.want), "want %q, found:\n%s", fault.want, found) //nolint:testifylint // Contains prints both as one long line
		})
	}
}

var faults = map[string]struct{ file, old, new, want string }{
	"unknown top-level key": {composeFile, "\nvolumes:\n  postgres: {}", "\nvolume:\n  postgres: {}", "volume"},
	"unknown service key":   {composeFile, "    shm_size:", "    shmsize:", "shmsize"},
	"undeclared volume":     {composeFile, "- prometheus:/prometheus", "- metrics:/prometheus", "undefined volume metrics"},
	"undeclared network":    {composeFile, "    networks: [database]\n    restart: unless-stopped", "    networks: [databases]\n    restart: unless-stopped", "undefined network databases"},

	"image without a tag":     {composeFile, "postgres:17.11-alpine3.24", "postgres", "postgres: image postgres is not pinned"},
	"image at latest":         {composeFile, "prom/prometheus:v3.13.4", "prom/prometheus:latest", "prometheus: image prom/prometheus:latest is not pinned"},
	"image at a major":        {composeFile, "temporalio/ui:2.55.0", "temporalio/ui:2", "temporal-ui: image temporalio/ui:2 is not pinned"},
	"tools of another server": {composeFile, "temporalio/server:1.32.1", "temporalio/server:1.31.2", "temporalio/admin-tools:1.32.1 does not go with temporalio/server:1.31.2"},

	"no health check":         {composeFile, "      test: [CMD, nc, -z, 127.0.0.1, \"7233\"]\n", "      disable: true\n", "temporal: runs on and has no health check"},
	"waits for no health":     {composeFile, "[CMD, /usr/local/bin/probe, \"http://127.0.0.1:9090/readyz\"]", "[NONE]", "starter: waits for worker to be healthy, which has no health check"},
	"waits for what runs on":  {composeFile, "      migrate:\n        condition: service_completed_successfully", "      temporal-ui:\n        condition: service_completed_successfully", "worker: waits for temporal-ui to end, which runs on"},
	"waits for nobody":        {composeFile, "      temporal-schema:\n        condition", "      temporal-scheme:\n        condition", "temporal-scheme"},
	"starts without a schema": {composeFile, "      migrate:\n        condition: service_completed_successfully\n", "", "worker: does not wait for migrate"},
	"starts without names":    {composeFile, "      temporal-namespace:\n        condition: service_completed_successfully\n", "", "worker: does not wait for temporal-namespace"},
	"no restart":              {composeFile, "    restart: unless-stopped\n    # Longer", "    # Longer", "worker: has no restart policy"},
	"killed while it stops":   {composeFile, "stop_grace_period: 45s", "stop_grace_period: 20s", "worker: is killed 20s after it was told to stop, and takes up to 30s"},

	"published to everyone":   {composeFile, "127.0.0.1:5432:5432", "5432:5432", "postgres: port 5432 is published on every address"},
	"published twice":         {composeFile, "127.0.0.1:8080:8080", "127.0.0.1:9090:8080", "port 9090 of this machine is published by"},
	"published and not there": {composeFile, "127.0.0.1:8080:8080", "127.0.0.1:8080:8233", "temporal-ui: port 8233 is published and nothing listens"},
	"exposed and not there":   {composeFile, "PAYONCE_LISTEN: :9090", "PAYONCE_LISTEN: :9464", "worker: port 9090 is exposed and nothing listens"},
	"listens out of reach":    {composeFile, "PAYONCE_LISTEN: :9090", "PAYONCE_LISTEN: 127.0.0.1:9090", "worker: listens on 127.0.0.1:9090, where nobody reaches it"},
	"probe asks elsewhere":    {composeFile, "\"http://127.0.0.1:9090/readyz\"", "\"http://127.0.0.1:9091/readyz\"", "worker: its health check asks port 9091, on which it does not listen"},
	"probe asks for nothing":  {composeFile, "/readyz", "/ready", "worker: its health check asks for /ready, which the worker does not serve"},
	"probe is not there":      {composeFile, "/usr/local/bin/probe", "/bin/probe", "worker: /bin/probe is not in the image"},
	"scraped elsewhere":       {scrapeFile, "port: 9090", "port: 9464", "prometheus: reaches worker:9464, on which it does not listen"},
	"scraped by no name":      {scrapeFile, "names: [worker]", "names: [workers]", "prometheus: reaches workers:9090, which is no service"},
	"server scraped wrongly":  {scrapeFile, "temporal:8000", "temporal:8001", "prometheus: reaches temporal:8001, on which it does not listen"},
	"server metrics moved":    {composeFile, "PROMETHEUS_ENDPOINT: 0.0.0.0:8000", "PROMETHEUS_ENDPOINT: 0.0.0.0:8010", "prometheus: reaches temporal:8000, on which it does not listen"},
	"no such host":            {composeFile, "eu=postgres://payonce_worker:${PAYONCE_WORKER_PASSWORD:-dev-worker}@postgres:5432", "eu=postgres://payonce_worker:${PAYONCE_WORKER_PASSWORD:-dev-worker}@postgresql:5432", "worker: reaches postgresql:5432, which is no service"},
	"database elsewhere":      {composeFile, "SQL_PORT: \"5432\"", "SQL_PORT: \"5433\"", "temporal-schema: reaches postgres:5433, on which it does not listen"},
	"on another network":      {composeFile, "    networks: [database, temporal]\n    restart: unless-stopped\n    # Longer", "    networks: [temporal]\n    restart: unless-stopped\n    # Longer", "worker: reaches postgres, and they share no network"},
	"CLI beside the books":    {composeFile, "        condition: service_healthy\n    networks: [temporal]\n\n", "        condition: service_healthy\n    networks: [temporal, database]\n\n", "starter: shares a network with postgres"},
	"CLI with a password":     {composeFile, "    command: [help]\n    environment:\n", "    command: [help]\n    environment:\n      LEDGERS: us=postgres://payonce_worker:x@postgres:5432/payonce_us\n", "starter: LEDGERS holds a database's address"},

	"renamed variable":         {composeFile, "PAYONCE_LISTEN:", "PAYONCE_METRICS:", "worker: the worker knows no variable PAYONCE_METRICS"},
	"variable of another":      {composeFile, "      PAYONCE_WORKER_ROLE: payonce_worker\n", "      PAYONCE_WORKER_ROLE: payonce_worker\n      PAYONCE_STOP_TIMEOUT: 30s\n", "migrate: worker migrate does not read PAYONCE_STOP_TIMEOUT"},
	"value that can't be read": {composeFile, "PAYONCE_STOP_TIMEOUT: 30s", "PAYONCE_STOP_TIMEOUT: soon", "worker: PAYONCE_STOP_TIMEOUT"},
	"variable of no server":    {composeFile, "NUM_HISTORY_SHARDS", "HISTORY_SHARDS", "temporal: temporalio/server knows no variable HISTORY_SHARDS"},
	"variable of no script":    {composeFile, "TEMPORAL_RETENTION: $", "TEMPORAL_KEEP: $", "temporal-namespace: docker/temporal/namespace.sh needs TEMPORAL_RETENTION"},
	"password of no role":      {composeFile, "      PAYONCE_OWNER_PASSWORD: ${", "      PAYONCE_OWNERS_PASSWORD: ${", "docker/postgres/init.sh"},
	"setting without a line":   {envFile, "TEMPORAL_RETENTION=168h\n", "", ".env.example has no TEMPORAL_RETENTION"},
	"setting with two values":  {envFile, "TEMPORAL_RETENTION=168h\n", "TEMPORAL_RETENTION=72h\n", ".env.example has TEMPORAL_RETENTION=72h, and the stack's default is 168h"},
	"setting of nothing":       {envFile, "TEMPORAL_RETENTION=168h\n", "TEMPORAL_RETENTION=168h\nPAYONCE_COLOUR=blue\n", ".env.example has PAYONCE_COLOUR, which nothing reads"},

	"no such command":     {composeFile, "command: [migrate]", "command: [migrations]", "migrate: worker has no command migrations"},
	"no such CLI command": {composeFile, "command: [help]", "command: [helpme]", "starter: starter has no command helpme"},
	"no such program":     {composeFile, "entrypoint: [/usr/local/bin/starter]", "entrypoint: [/starter]", "starter: /starter is not in the image"},

	"ledger without a database":  {initScript, "create database payonce_eu owner payonce;\n", "", "worker: ledger eu is in database payonce_eu, which docker/postgres/init.sh does not create"},
	"database without a ledger":  {initScript, "create database payonce_eu owner payonce;\n", "create database payonce_eu owner payonce;\ncreate database payonce_asia owner payonce;\n", "database payonce_asia belongs to payonce, and no ledger is in it"},
	"database of another":        {initScript, "create database payonce_us owner payonce;", "create database payonce_us owner temporal;", "migrate: ledger us: payonce does not own database payonce_us"},
	"worker may not connect":     {initScript, "grant connect on database payonce_us, payonce_eu", "grant connect on database payonce_us", "worker: ledger eu: payonce_worker may not connect to database payonce_eu"},
	"role without a login":       {initScript, "create role payonce_worker login password :'worker_password';\n", "", "role payonce_worker, which docker/postgres/init.sh does not create"},
	"password of another role":   {initScript, "create role payonce_worker login password :'worker_password'", "create role payonce_worker login password :'owner_password'", "worker: ledger us: the password of payonce_worker is not the one"},
	"errors are passed over":     {initScript, " -v ON_ERROR_STOP=1", "", "goes on after an error"},
	"worker as the owner":        {composeFile, "LEDGERS: us=postgres://payonce_worker:${PAYONCE_WORKER_PASSWORD:-dev-worker}@", "LEDGERS: us=postgres://payonce:${PAYONCE_OWNER_PASSWORD:-dev-owner}@", "worker: ledger us: payonce owns the tables"},
	"rights for another role":    {composeFile, "PAYONCE_WORKER_ROLE: payonce_worker", "PAYONCE_WORKER_ROLE: payonce_reader", "worker: ledger us: payonce_worker is given no rights: migrate gives them to payonce_reader"},
	"migrates too few":           {composeFile, ",eu=postgres://payonce:${PAYONCE_OWNER_PASSWORD:-dev-owner}@postgres:5432/payonce_eu?sslmode=disable", "", "worker: ledger eu is migrated by nobody"},
	"Temporal without its store": {initScript, "create database temporal_visibility owner temporal;\n", "", "docker/postgres/init.sh does not create temporal_visibility for temporal"},

	"mounts what is not there": {composeFile, "./docker/temporal/schema.sh:", "./docker/temporal/setup.sh:", "temporal-schema: mounts docker/temporal/setup.sh, which does not exist"},
	"mounts what nobody reads": {composeFile, "./docker/temporal/schema.sh:/payonce/schema.sh:ro", "./docker/temporal/schema.sh:/payonce/tables.sh:ro", "temporal-schema: nothing reads /payonce/tables.sh"},
	"mounts to write":          {composeFile, "/payonce/namespace.sh:ro", "/payonce/namespace.sh", "temporal-namespace: may write docker/temporal/namespace.sh"},

	"attribute not registered": {namespaceScript, "--name PayonceState --type Keyword \\\n\t", "", "PayonceState is set by workflows and not registered"},
	"attribute of nobody":      {namespaceScript, "--name PayonceState --type Keyword", "--name PayonceState --type Keyword --name PayonceColour --type Text", "PayonceColour is registered as Text and set by no workflow"},
	"attribute of other type":  {namespaceScript, "--name PayonceState --type Keyword", "--name PayonceState --type Text", "PayonceState is registered as Text, and workflows set Keyword"},

	"base image not pinned":    {dockerFile, "FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm", "FROM --platform=$BUILDPLATFORM golang:latest", "Dockerfile: image golang:latest is not pinned"},
	"runtime not by digest":    {dockerFile, "nonroot@sha256:", "nonroot-sha256-", "Dockerfile: image gcr.io/distroless/static-debian13:nonroot-sha256-"},
	"another Go":               {dockerFile, "golang:1.26.8-bookworm", "golang:1.25.1-bookworm", "Dockerfile: builds with Go 1.25.1, and go.mod wants 1.26"},
	"copies what is not there": {dockerFile, "COPY workflows/ workflows/", "COPY workflow/ workflow/", "Dockerfile: COPY workflow: it does not exist"},
	"copies too little":        {dockerFile, "COPY activities/ activities/\n", "", "Dockerfile: activities is built and not copied"},
	"copies what is ignored":   {dockerIgnoreFile, "!starter\n", "", "Dockerfile: COPY starter: .dockerignore leaves it out"},
	"ignores nothing":          {dockerIgnoreFile, "\n*\n", "\n", ".dockerignore lets everything in"},
	"builds what is not there": {dockerFile, "./docker/probe\n", "./docker/prober\n", "Dockerfile: builds docker/prober, which is no program"},
	"takes what is not built":  {dockerFile, "/out/probe /usr/local/bin/", "/out/health /usr/local/bin/", "Dockerfile: COPY /out/health: nothing builds it"},
	"starts what is not there": {dockerFile, "ENTRYPOINT [\"/usr/local/bin/worker\"]", "ENTRYPOINT [\"/worker\"]", "Dockerfile: ENTRYPOINT /worker is not in the image"},
	"starts no command":        {dockerFile, "CMD [\"run\"]", "CMD [\"start\"]", "Dockerfile: CMD: worker has no command start"},
	"runs as root":             {dockerFile, "USER 65532:65532", "USER root", "Dockerfile: runs as root"},
	"exposes another port":     {dockerFile, "EXPOSE 9090", "EXPOSE 8080", "Dockerfile: EXPOSE 8080, and the worker listens on 9090"},
	"version of nothing":       {dockerFile, "main.version=$VERSION", "main.Version=$VERSION", "Dockerfile: -X main.Version: ./worker has no such string"},
	"argument of nothing":      {composeFile, "      VERSION: ${", "      RELEASE: ${", "build argument RELEASE is not in the Dockerfile"},
}

// root is the module's folder.
const root = "../.."

// readFiles reads the files that make the stack.
func readFiles(t *testing.T) files {
	t.Helper()
	texts := make(files)
	for _, name := range []string{composeFile, dockerFile, dockerIgnoreFile, envFile, "go.mod"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		texts[name] = string(text)
	}
	err := fs.WalkDir(os.DirFS(root), "docker", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		texts[name] = string(text)
		return err
	})
	require.NoError(t, err)
	return texts
}

// ours says whether a service runs the image that the Dockerfile builds.
func ours(service types.ServiceConfig) bool { return service.Build != nil }

// repository returns an image's name without its tag: "temporalio/server".
func repository(image string) string {
	name, _, _ := strings.Cut(image, "@")
	if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") {
		return name[:colon]
	}
	return name
}

// value returns a variable of a service; "" if it is not set.
func value(service types.ServiceConfig, name string) string {
	if v := service.Environment[name]; v != nil {
		return *v
	}
	return ""
}

// portOf returns the port of an address like ":9090"; 0 if it has none.
func portOf(address string) int {
	port, err := strconv.Atoi(address[strings.LastIndex(address, ":")+1:])
	if err != nil {
		return 0
	}
	return port
}
