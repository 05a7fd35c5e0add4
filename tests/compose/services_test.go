package compose

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v3"

	"payonce/internal/serve"
)

// known are the images of others: on which ports each listens, and which of our variables it reads. The lists are from
// their documentation and hold what is used here; "=NAME" is a variable that has the address of one more port.
var known = map[string]struct {
	ports     []string
	variables []string
}{
	"postgres": {
		ports:     []string{"5432"},
		variables: []string{"POSTGRES_PASSWORD", "POSTGRES_INITDB_ARGS"},
	},
	"prom/prometheus": {
		ports: []string{"9090"},
	},
	"temporalio/admin-tools": {
		variables: []string{
			"SQL_PLUGIN", "SQL_HOST", "SQL_PORT", "SQL_USER", "SQL_PASSWORD",
			"TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE",
		},
	},
	"temporalio/server": {
		ports: []string{"7233", "=PROMETHEUS_ENDPOINT"},
		variables: []string{
			"BIND_ON_IP", "DB", "DB_PORT", "DYNAMIC_CONFIG_FILE_PATH", "NUM_HISTORY_SHARDS", "POSTGRES_PWD",
			"POSTGRES_SEEDS", "POSTGRES_USER", "PROMETHEUS_ENDPOINT", "TEMPORAL_BROADCAST_ADDRESS",
		},
	},
	"temporalio/ui": {
		ports:     []string{"8080"},
		variables: []string{"TEMPORAL_ADDRESS", "TEMPORAL_CSRF_COOKIE_INSECURE"},
	},
}

// checkImages checks that each image is one release, and that Temporal's tools are of its server's.
func (s *stack) checkImages() {
	tags := make(map[string]string)
	published := make(map[string]string)
	for _, service := range s.services() {
		if !ours(service) {
			if !isPinned(service.Image) {
				s.problem("%s: image %s is not pinned to one release", service.Name, service.Image)
			}
			if _, ok := known[repository(service.Image)]; !ok {
				s.problem("%s: image %s is not one that this test knows", service.Name, service.Image)
			}
			tags[repository(service.Image)] = service.Image
		} else {
			for name := range service.Build.Args {
				if !s.image.arguments[name] {
					s.problem("%s: build argument %s is not in the Dockerfile", service.Name, name)
				}
			}
		}
		for _, port := range service.Ports {
			if other := published[port.Published]; other != "" {
				s.problem("port %s of this machine is published by %s and %s", port.Published, other, service.Name)
			}
			published[port.Published] = service.Name
		}
	}
	tools, server := tags["temporalio/admin-tools"], tags["temporalio/server"]
	if strings.TrimPrefix(tools, "temporalio/admin-tools:") != strings.TrimPrefix(server, "temporalio/server:") {
		s.problem("%s does not go with %s", tools, server)
	}
}

// endsByItself says whether a service does one thing and is done.
func endsByItself(service types.ServiceConfig) bool {
	return strings.HasPrefix(service.Restart, types.RestartPolicyOnFailure+":")
}

func hasHealthCheck(service types.ServiceConfig) bool {
	check := service.HealthCheck
	return check != nil && !check.Disable && len(check.Test) > 1 && check.Test[0] != "NONE"
}

// checkLife checks when a service starts again, how one sees that it is well, and how it ends.
func (s *stack) checkLife(service types.ServiceConfig) {
	onDemand := len(service.Profiles) > 0
	switch {
	case onDemand, endsByItself(service):
	case service.Restart != types.RestartPolicyUnlessStopped:
		s.problem("%s: has no restart policy", service.Name)
	case !hasHealthCheck(service):
		s.problem("%s: runs on and has no health check", service.Name)
	}
	if s.commandOf(service) != "worker "+serve.CommandRun {
		return
	}
	settings, err := serve.ReadSettings(environment(service))
	if err != nil {
		return // checkSettings says so
	}
	grace := 10 * time.Second // docker's own
	if service.StopGracePeriod != nil {
		grace = time.Duration(*service.StopGracePeriod)
	}
	if grace <= settings.StopTimeout {
		s.problem("%s: is killed %s after it was told to stop, and takes up to %s", service.Name, grace, settings.StopTimeout)
	}
}

// checkDependencies checks that a service can get what it waits for. That the names exist is checked by the loader.
func (s *stack) checkDependencies(service types.ServiceConfig) {
	for name, dependency := range service.DependsOn {
		other := s.project.Services[name]
		switch dependency.Condition {
		case types.ServiceConditionHealthy:
			if !hasHealthCheck(other) {
				s.problem("%s: waits for %s to be healthy, which has no health check", service.Name, name)
			}
		case types.ServiceConditionCompletedSuccessfully:
			if !endsByItself(other) {
				s.problem("%s: waits for %s to end, which runs on", service.Name, name)
			}
		default:
			s.problem("%s: waits for %s to be %s, which says nothing of its being ready", service.Name, name, dependency.Condition)
		}
	}
}

// checkStart checks that no worker starts before the tables and the names that it needs are there.
func (s *stack) checkStart() {
	for _, worker := range s.services() {
		if s.commandOf(worker) != "worker "+serve.CommandRun {
			continue
		}
		for _, other := range s.services() {
			migrates := s.commandOf(other) == "worker "+serve.CommandMigrate
			names := mounted(other, namespaceScript)
			if (migrates || names) && worker.DependsOn[other.Name].Condition != types.ServiceConditionCompletedSuccessfully {
				s.problem("%s: does not wait for %s", worker.Name, other.Name)
			}
		}
	}
}

// listens returns the addresses on which a service listens.
func (s *stack) listens(service types.ServiceConfig) []string {
	if ours(service) {
		if s.commandOf(service) == "worker "+serve.CommandRun && value(service, serve.EnvListen) != "" {
			return []string{value(service, serve.EnvListen)}
		}
		return nil
	}
	var addresses []string
	for _, port := range known[repository(service.Image)].ports {
		if variable, ok := strings.CutPrefix(port, "="); ok {
			addresses = append(addresses, value(service, variable))
		} else {
			addresses = append(addresses, ":"+port)
		}
	}
	return addresses
}

func (s *stack) listensOn(service types.ServiceConfig, port int) bool {
	return slices.ContainsFunc(s.listens(service), func(address string) bool { return portOf(address) == port })
}

// checkPorts checks that what is published or exposed is listened on, and published on this machine only.
func (s *stack) checkPorts(service types.ServiceConfig) {
	for _, address := range s.listens(service) {
		host, _, err := net.SplitHostPort(address)
		if ip := net.ParseIP(host); err != nil || ip != nil && ip.IsLoopback() {
			s.problem("%s: listens on %s, where nobody reaches it", service.Name, address)
		}
	}
	for _, port := range service.Ports {
		if port.HostIP != "127.0.0.1" {
			s.problem("%s: port %s is published on every address of this machine", service.Name, port.Published)
		}
		if !s.listensOn(service, int(port.Target)) {
			s.problem("%s: port %d is published and nothing listens on it", service.Name, port.Target)
		}
	}
	for _, exposed := range service.Expose {
		if !s.listensOn(service, portOf(exposed)) {
			s.problem("%s: port %s is exposed and nothing listens on it", service.Name, exposed)
		}
	}
}

// checkReaches checks that each address that a service is given leads to a service that listens there.
func (s *stack) checkReaches(service types.ServiceConfig) {
	for _, address := range s.reaches(service) {
		name, _, _ := strings.Cut(address, ":")
		other, ok := s.project.Services[name]
		switch {
		case !ok:
			s.problem("%s: reaches %s, which is no service", service.Name, address)
		case !s.listensOn(other, portOf(address)):
			s.problem("%s: reaches %s, on which it does not listen", service.Name, address)
		case !shareNetwork(service, other):
			s.problem("%s: reaches %s, and they share no network", service.Name, name)
		}
	}
	if !hasHealthCheck(service) {
		return
	}
	for _, asked := range regexp.MustCompile(`127\.0\.0\.1[: ](\d+)`).FindAllStringSubmatch(strings.Join(service.HealthCheck.Test, " "), -1) {
		if !s.listensOn(service, portOf(asked[1])) {
			s.problem("%s: its health check asks port %s, on which it does not listen", service.Name, asked[1])
		}
	}
}

// reaches returns the addresses of others that a service is given: in variables, on its command line, and in the files
// that are mounted for it.
func (s *stack) reaches(service types.ServiceConfig) []string {
	var found []string
	for name := range service.Environment {
		text := value(service, name)
		for _, dsn := range regexp.MustCompile(`postgres(ql)?://[^,\s]+`).FindAllString(text, -1) {
			if parsed, err := url.Parse(dsn); err == nil {
				found = append(found, parsed.Host)
			}
		}
		if strings.HasSuffix(name, "_ADDRESS") && net.ParseIP(text) == nil {
			found = append(found, text)
		}
	}
	for host, port := range map[string]string{"SQL_HOST": "SQL_PORT", "POSTGRES_SEEDS": "DB_PORT"} {
		if value(service, host) != "" {
			found = append(found, value(service, host)+":"+value(service, port))
		}
	}
	if mounted(service, scrapeFile) {
		found = append(found, s.scraped()...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// scraped returns what Prometheus is told to ask.
func (s *stack) scraped() []string {
	var config struct {
		Global struct {
			Interval string `yaml:"scrape_interval"`
		} `yaml:"global"`
		Jobs []struct {
			Name   string `yaml:"job_name"`
			Static []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
			DNS []struct {
				Names []string `yaml:"names"`
				Type  string   `yaml:"type"`
				Port  int      `yaml:"port"`
			} `yaml:"dns_sd_configs"`
		} `yaml:"scrape_configs"`
	}
	decoder := yaml.NewDecoder(strings.NewReader(s.files[scrapeFile]))
	decoder.KnownFields(true)
	if err := decoder.Decode(&config); err != nil {
		s.problem("%s: %v", scrapeFile, err)
	}
	var targets []string
	for _, job := range config.Jobs {
		for _, static := range job.Static {
			targets = append(targets, static.Targets...)
		}
		for _, dns := range job.DNS {
			for _, name := range dns.Names {
				targets = append(targets, name+":"+strconv.Itoa(dns.Port))
			}
		}
	}
	return targets
}

func shareNetwork(a, b types.ServiceConfig) bool {
	for name := range a.Networks {
		if _, ok := b.Networks[name]; ok {
			return true
		}
	}
	return false
}

// checkVariables checks that each variable is one that the service's program knows.
func (s *stack) checkVariables(service types.ServiceConfig) {
	for name := range service.Environment {
		if ours(service) {
			s.checkOurVariable(service, name)
			continue
		}
		repository := repository(service.Image)
		ofImage := slices.Contains(known[repository].variables, name)
		ofScript := slices.ContainsFunc(s.scripts(service), func(script string) bool { return uses(s.files[script], name) })
		if !ofImage && !ofScript {
			s.problem("%s: %s knows no variable %s", service.Name, repository, name)
		}
	}
}

func (s *stack) checkOurVariable(service types.ServiceConfig, name string) {
	program, command, _ := strings.Cut(s.commandOf(service), " ")
	for _, variable := range serve.Variables() {
		if variable.Name != name && (!variable.Prefix || !strings.HasPrefix(name, variable.Name)) {
			continue
		}
		if program == "worker" && !slices.Contains(variable.Commands, command) {
			s.problem("%s: worker %s does not read %s", service.Name, command, name)
		}
		if program != "worker" && !strings.HasPrefix(name, "TEMPORAL_") {
			s.problem("%s: %s does not read %s", service.Name, program, name)
		}
		return
	}
	s.problem("%s: the worker knows no variable %s", service.Name, name)
}

// checkProgram checks what a service of ours runs.
func (s *stack) checkProgram(service types.ServiceConfig) {
	program, there := s.image.program(service.Entrypoint)
	if !there {
		s.problem("%s: %s is not in the image", service.Name, strings.Join(service.Entrypoint, " "))
		return
	}
	command := slices.Concat(service.Command, s.image.command)
	if len(command) > 0 && !s.code.hasCommand(context.Background(), program, command[0]) {
		s.problem("%s: %s has no command %s", service.Name, program, command[0])
	}
	if program != "worker" {
		s.checkHoldsNoDatabase(service)
	}
	if hasHealthCheck(service) {
		if probe := service.HealthCheck.Test[1]; !s.image.programs[probe] {
			s.problem("%s: %s is not in the image", service.Name, probe)
		}
		asked, err := url.Parse(service.HealthCheck.Test[len(service.HealthCheck.Test)-1])
		if err != nil || !s.code.paths[asked.Path] {
			s.problem("%s: its health check asks for %s, which the worker does not serve", service.Name, asked.Path)
		}
	}
}

// checkHoldsNoDatabase checks that a service has neither a database's address nor a way to one.
func (s *stack) checkHoldsNoDatabase(service types.ServiceConfig) {
	for name := range service.Environment {
		if strings.Contains(value(service, name), "postgres") {
			s.problem("%s: %s holds a database's address", service.Name, name)
		}
	}
	for _, other := range s.services() {
		if repository(other.Image) == "postgres" && shareNetwork(service, other) {
			s.problem("%s: shares a network with %s", service.Name, other.Name)
		}
	}
}

// commandOf returns what a service of ours runs: "worker migrate"; "" for those of others.
func (s *stack) commandOf(service types.ServiceConfig) string {
	if !ours(service) {
		return ""
	}
	program, _ := s.image.program(service.Entrypoint)
	command := slices.Concat(service.Command, s.image.command)
	if len(command) == 0 {
		return program
	}
	return program + " " + command[0]
}

// checkMounts checks that what is mounted exists, is read by someone, and can't be written.
func (s *stack) checkMounts() {
	for _, service := range s.services() {
		for _, volume := range service.Volumes {
			if volume.Type != types.VolumeTypeBind {
				continue
			}
			source := inside(volume.Source)
			if _, ok := s.files[source]; !ok {
				s.problem("%s: mounts %s, which does not exist", service.Name, source)
			}
			if !volume.ReadOnly {
				s.problem("%s: may write %s", service.Name, source)
			}
			said := fmt.Sprint(service.Entrypoint, service.Command, environment(service))
			if path.Dir(volume.Target) != "/docker-entrypoint-initdb.d" && !strings.Contains(said, volume.Target) {
				s.problem("%s: nothing reads %s", service.Name, volume.Target)
			}
		}
	}
}

// inside returns a mount's source below the module's root.
func inside(source string) string {
	absolute, err := filepath.Abs(root)
	if err != nil {
		return source
	}
	relative, err := filepath.Rel(absolute, source)
	if err != nil {
		return source
	}
	return filepath.ToSlash(relative)
}

// mounted says whether a file is mounted for a service.
func mounted(service types.ServiceConfig, file string) bool {
	return slices.ContainsFunc(service.Volumes, func(volume types.ServiceVolumeConfig) bool {
		return volume.Type == types.VolumeTypeBind && inside(volume.Source) == file
	})
}

// scripts returns the shell scripts that are mounted for a service.
func (s *stack) scripts(service types.ServiceConfig) []string {
	var scripts []string
	for _, volume := range service.Volumes {
		if source := inside(volume.Source); volume.Type == types.VolumeTypeBind && path.Ext(source) == ".sh" {
			scripts = append(scripts, source)
		}
	}
	return scripts
}

var scriptVariable = regexp.MustCompile(`\$\{?([A-Z][A-Z0-9_]*)(:-)?`)

func uses(script, variable string) bool {
	return slices.ContainsFunc(scriptVariable.FindAllStringSubmatch(script, -1), func(use []string) bool { return use[1] == variable })
}

// checkScripts checks that each script gets the variables that it can't do without, and that .env.example has what the
// stack reads, with the same defaults.
func (s *stack) checkScripts() {
	for _, service := range s.services() {
		for _, script := range s.scripts(service) {
			for _, use := range scriptVariable.FindAllStringSubmatch(s.files[script], -1) {
				if _, set := service.Environment[use[1]]; !set && use[2] == "" {
					s.problem("%s: %s needs %s", service.Name, script, use[1])
				}
			}
		}
	}
	offered := make(map[string]string)
	for _, line := range regexp.MustCompile(`(?m)^([A-Z_]+)=(.*)$`).FindAllStringSubmatch(s.files[envFile], -1) {
		offered[line[1]] = line[2]
	}
	read := make(map[string]bool)
	for _, use := range regexp.MustCompile(`\$\{?([A-Z_]+)(?::-([^}]*))?\}?`).FindAllStringSubmatch(s.files[composeFile], -1) {
		name, byDefault := use[1], use[2]
		read[name] = true
		setting, ok := offered[name]
		switch {
		case !ok:
			s.problem("%s has no %s", envFile, name)
		case setting != byDefault:
			s.problem("%s has %s=%s, and the stack's default is %s", envFile, name, setting, cmp.Or(byDefault, "nothing"))
		}
	}
	for name := range offered {
		if !read[name] {
			s.problem("%s has %s, which nothing reads", envFile, name)
		}
	}
}

// checkSearchAttributes checks that the attributes that are registered are those that workflows set.
func (s *stack) checkSearchAttributes() {
	registered := make(map[string]string)
	for _, pair := range regexp.MustCompile(`--name (\w+) --type (\w+)`).FindAllStringSubmatch(s.files[namespaceScript], -1) {
		registered[pair[1]] = pair[2]
	}
	for name, kind := range s.code.attributes {
		switch registered[name] {
		case kind:
		case "":
			s.problem("search attribute %s is set by workflows and not registered", name)
		default:
			s.problem("search attribute %s is registered as %s, and workflows set %s", name, registered[name], kind)
		}
	}
	for name, kind := range registered {
		if _, ok := s.code.attributes[name]; !ok {
			s.problem("search attribute %s is registered as %s and set by no workflow", name, kind)
		}
	}
}
