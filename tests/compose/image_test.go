package compose

import (
	"context"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// image is what the Dockerfile makes.
type image struct {
	arguments map[string]bool // that it takes
	programs  map[string]bool // that are in it, by path: "/usr/local/bin/worker"
	start     []string        // what runs: ENTRYPOINT
	command   []string        // and its arguments, unless others are given: CMD
}

// program returns the name of the program that a service runs, and whether the image has it.
func (i image) program(entrypoint []string) (name string, there bool) {
	if len(entrypoint) == 0 {
		entrypoint = i.start
	}
	if len(entrypoint) == 0 {
		return "", false
	}
	return path.Base(entrypoint[0]), i.programs[entrypoint[0]]
}

type instruction struct {
	name string
	args []string
}

// pinned matches a tag that names one release: "17.11-alpine3.24", "v3.13.4", "1.32.1".
var pinned = regexp.MustCompile(`^v?\d+\.\d+(\.\d+)?(-[\w.]+)?$`)

// isPinned says whether an image's name has such a tag, or a digest.
func isPinned(image string) bool {
	if regexp.MustCompile(`@sha256:[0-9a-f]{64}$`).MatchString(image) {
		return true
	}
	tag := strings.TrimPrefix(image[len(repository(image)):], ":")
	return pinned.MatchString(tag) && strings.Contains(tag, ".")
}

// readImage goes through the Dockerfile and checks each step against the module.
func (s *stack) readImage() {
	s.image = image{arguments: make(map[string]bool), programs: make(map[string]bool)}
	copied := make(map[string]bool) // of the module, into the build
	built := make(map[string]bool)  // by path: "/out/worker"
	user := ""
	for _, step := range instructions(s.files[dockerFile]) {
		options, args := split(step.args)
		switch step.name {
		case "FROM":
			s.checkBase(args[0])
		case "ARG":
			name, _, _ := strings.Cut(args[0], "=")
			s.image.arguments[name] = true
		case "COPY":
			sources, to := args[:len(args)-1], args[len(args)-1]
			_, staged := options["--from"]
			for _, source := range sources {
				switch {
				case !staged:
					s.checkCopy(strings.TrimSuffix(source, "/"), strings.TrimSuffix(to, "/"))
					copied[strings.TrimSuffix(source, "/")] = true
				case !built[source]:
					s.problem("Dockerfile: COPY %s: nothing builds it", source)
				default:
					s.image.programs[to+path.Base(source)] = true
				}
			}
		case "RUN":
			if slices.Contains(args, "build") {
				s.readBuild(args, options, copied, built)
			}
		case "USER":
			user = args[0]
		case "EXPOSE":
			s.checkExposed(args[0])
		case "ENTRYPOINT":
			s.image.start = args
		case "CMD":
			s.image.command = args
		}
	}
	if user == "" || user == "root" || strings.HasPrefix(user, "0") {
		s.problem("Dockerfile: runs as root")
	}
	if len(s.image.start) == 0 || !s.image.programs[s.image.start[0]] {
		s.problem("Dockerfile: ENTRYPOINT %s is not in the image", strings.Join(s.image.start, " "))
		return
	}
	if program := path.Base(s.image.start[0]); len(s.image.command) == 0 || !s.code.hasCommand(context.Background(), program, s.image.command[0]) {
		s.problem("Dockerfile: CMD: %s has no command %s", program, strings.Join(s.image.command, " "))
	}
}

func (s *stack) checkBase(name string) {
	if !isPinned(name) {
		s.problem("Dockerfile: image %s is not pinned", name)
		return
	}
	if tag, isGo := strings.CutPrefix(name, "golang:"); isGo {
		release, _, _ := strings.Cut(tag, "-")
		wanted := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(s.files["go.mod"])[1]
		if !strings.HasPrefix(release+".", wanted+".") {
			s.problem("Dockerfile: builds with Go %s, and go.mod wants %s", release, wanted)
		}
	}
}

// checkCopy checks a copy from the module into the build: a folder keeps its name there, and a file may go anywhere.
func (s *stack) checkCopy(source, to string) {
	found, err := os.Stat(filepath.Join(root, source))
	if err != nil {
		s.problem("Dockerfile: COPY %s: it does not exist", source)
		return
	}
	if found.IsDir() && source != to {
		s.problem("Dockerfile: COPY %s: it becomes %s, where its imports are not found", source, to)
	}
	ignored := strings.Split(s.files[dockerIgnoreFile], "\n")
	if !slices.Contains(ignored, "*") {
		s.problem(".dockerignore lets everything in: passwords and local state too")
	}
	if !slices.Contains(ignored, "!"+source) {
		s.problem("Dockerfile: COPY %s: .dockerignore leaves it out", source)
	}
}

// readBuild checks a `go build` and notes what it makes.
func (s *stack) readBuild(args []string, options map[string]string, copied, built map[string]bool) {
	var programs []string
	for _, arg := range args {
		folder, isFolder := strings.CutPrefix(arg, "./")
		if !isFolder {
			continue
		}
		if !s.code.isProgram(folder) {
			s.problem("Dockerfile: builds %s, which is no program", folder)
			continue
		}
		programs = append(programs, folder)
		built[options["-o"]+path.Base(folder)] = true
	}
	for _, needed := range s.code.foldersOf(programs) {
		if !isBelow(needed, copied) {
			s.problem("Dockerfile: %s is built and not copied", needed)
		}
	}
	for _, setting := range regexp.MustCompile(`-X (main\.\w+)=`).FindAllStringSubmatch(strings.Join(args, " "), -1) {
		for _, program := range []string{"worker", "starter"} {
			if !s.code.versions[program+" "+setting[1]] {
				s.problem("Dockerfile: -X %s: ./%s has no such string", setting[1], program)
			}
		}
	}
}

func (s *stack) checkExposed(port string) {
	for _, service := range s.services() {
		if listen := value(service, "PAYONCE_LISTEN"); listen != "" && !strings.HasSuffix(listen, ":"+port) {
			s.problem("Dockerfile: EXPOSE %s, and the worker listens on %d", port, portOf(listen))
		}
	}
}

// isBelow says whether a folder or one that it lies in is in the set.
func isBelow(folder string, set map[string]bool) bool {
	for ; folder != "."; folder = path.Dir(folder) {
		if set[folder] {
			return true
		}
	}
	return false
}

// instructions reads a Dockerfile. It knows what ours uses: comments, lines that go on, and lists in JSON.
func instructions(text string) []instruction {
	var steps []instruction
	var whole string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if start, goesOn := strings.CutSuffix(line, "\\"); goesOn {
			whole += start
			continue
		}
		name, rest, _ := strings.Cut(whole+line, " ")
		whole = ""
		var args []string
		if json.Unmarshal([]byte(rest), &args) != nil {
			args = strings.Fields(rest)
		}
		steps = append(steps, instruction{name: name, args: args})
	}
	return steps
}

// split parts an instruction's options, and -o of the go command, from its arguments.
func split(args []string) (options map[string]string, rest []string) {
	options = make(map[string]string)
	for i := 0; i < len(args); i++ {
		switch {
		case strings.HasPrefix(args[i], "--"):
			name, setting, _ := strings.Cut(args[i], "=")
			options[name] = setting
		case args[i] == "-o" && i+1 < len(args):
			options["-o"] = args[i+1]
			i++
		default:
			rest = append(rest, args[i])
		}
	}
	return options, rest
}
