package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"chaperone/internal/owned/jail"
)

// project is what matters here of a Compose file: who sees which folder.
type project struct {
	Include  any                       `yaml:"include"`
	Services map[string]projectService `yaml:"services"`
	Volumes  map[string]struct {
		Options map[string]any `yaml:"driver_opts"`
	} `yaml:"volumes"`
}

type projectService struct {
	User        any      `yaml:"user"`
	Volumes     []any    `yaml:"volumes"`
	VolumesFrom []string `yaml:"volumes_from"`
	Extends     any      `yaml:"extends"`
}

// partial tells whether the file takes in others, which aren't followed here.
func (p project) partial() bool {
	for _, s := range p.Services {
		if from, ok := s.Extends.(map[string]any); ok && from["file"] != nil {
			return true
		}
	}
	return p.Include != nil
}

// volume is one entry of a service's volumes; source is "" where it is no folder
// of the host.
type volume struct{ source, target string }

// checkProject refuses a Compose file whose services would see the registrations
// besides the one that may, or would show them to what works in its workspace.
func (l *launching) checkProject(p project, dir string, binds []jail.Bind, owner uint32) error {
	for _, service := range slices.Sorted(maps.Keys(p.Services)) {
		if err := l.checkService(p, service, dir, binds, owner); err != nil {
			return fmt.Errorf("service %s: %w", printable(service), err)
		}
	}
	return nil
}

// readProject decodes what a Compose file says. The YAML parser is foreign code
// over a foreign text: a panic in it is a file that can't be read.
func readProject(data []byte) (p project, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("it can't be read")
		}
	}()
	return p, yaml.Unmarshal(data, &p)
}

func (l *launching) checkService(p project, name, dir string, binds []jail.Bind, owner uint32) error {
	s, chosen := p.Services[name], name == l.services[0]
	if chosen {
		if err := checkUser(s.User, owner); err != nil {
			return err
		}
	}
	for _, from := range s.VolumesFrom {
		if from, _, _ = strings.Cut(from, ":"); !chosen && from == l.services[0] {
			return fmt.Errorf("as a second service it would get the mount by volumes_from: name its volumes there one by one")
		}
	}
	for _, entry := range s.Volumes {
		v, err := p.volume(entry, dir)
		if err != nil {
			return err
		}
		if target := path.Clean(v.target); chosen && (target == jail.MountDir || strings.HasPrefix(target, jail.MountDir+"/")) {
			return fmt.Errorf("it mounts something at %s already: take that away", target)
		}
		what := "the volume " + v.source
		if !chosen {
			what = "the volume of this second service, " + v.source + ","
		}
		for _, b := range binds {
			if v.source != "" && (holds(v.source, b.Source) || holds(b.Source, v.source)) {
				return fmt.Errorf("%s and %s overlap: whoever works there would read the credentials; use a directory outside of it", b.Source, what)
			}
		}
	}
	return nil
}

// checkUser refuses a service that runs as somebody whom the registrations don't
// belong to. Where nothing is said the image decides, and the client refuses.
func checkUser(user any, owner uint32) error {
	if user == nil {
		return nil
	}
	text, err := interpolated(fmt.Sprint(user))
	if err != nil {
		return fmt.Errorf("user: %w", err)
	}
	text, _, _ = strings.Cut(text, ":")
	uid, err := strconv.ParseUint(text, 10, 32)
	switch {
	case text == "root":
		uid = 0
	case err != nil:
		return fmt.Errorf("user %s: its number can't be known here: write the uid, %d or 0", printable(text), owner)
	}
	switch {
	case rootless() && uid != 0:
		return fmt.Errorf("it runs as uid %d of a rootless engine, which is another user of this machine than the registrations' owner: leave user out, or make it 0", uid)
	case uid != 0 && uid != uint64(owner):
		return fmt.Errorf("it runs as uid %d, and the registrations belong to uid %d: neither end would trust the other; set user to %d, or 0", uid, owner, owner)
	}
	return nil
}

// volume reads one entry, short or long.
func (p project) volume(entry any, dir string) (v volume, err error) {
	switch entry := entry.(type) {
	case string:
		text, err := interpolated(entry)
		if err != nil {
			return v, fmt.Errorf("volumes: %w", err)
		}
		source, target, ok := strings.Cut(text, ":")
		if !ok {
			return volume{target: source}, nil // an anonymous volume
		}
		v.target, _, _ = strings.Cut(target, ":")
		return p.located(v, source, strings.HasPrefix(source, ".") || strings.HasPrefix(source, "/") || strings.HasPrefix(source, "~"), dir)
	case map[string]any:
		source, err := interpolated(text(entry["source"], entry["src"]))
		if err != nil {
			return v, fmt.Errorf("volumes: %w", err)
		}
		v.target, err = interpolated(text(entry["target"], entry["destination"], entry["dst"]))
		if err != nil {
			return v, fmt.Errorf("volumes: %w", err)
		}
		return p.located(v, source, entry["type"] == "bind", dir)
	}
	return v, errors.New("volumes: an entry is neither text nor a mapping")
}

// text is the first value that is text, "" where none is.
func text(values ...any) string {
	for _, v := range values {
		if s, ok := v.(string); ok {
			return s
		}
	}
	return ""
}

// located sets where the volume's source is on this host, if it is a folder of it.
func (p project) located(v volume, source string, folder bool, dir string) (volume, error) {
	if !folder {
		// A named volume may be a bind in disguise.
		if source = text(p.Volumes[source].Options["device"]); !filepath.IsAbs(source) {
			return v, nil
		}
	}
	if rest, ok := strings.CutPrefix(source, "~"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return v, err
		}
		source = home + rest
	}
	if !filepath.IsAbs(source) {
		source = filepath.Join(dir, source)
	}
	v.source = source
	return v, nil
}

// interpolated puts the environment's variables in, as Compose does. What Compose
// would find in a place that isn't looked at here is refused, not guessed.
func interpolated(text string) (string, error) {
	var bad string
	out := os.Expand(text, func(name string) string {
		if name == "$" {
			return "$"
		}
		end := strings.IndexAny(name, ":-?+")
		if end < 0 {
			end = len(name)
		}
		value, set := os.LookupEnv(name[:end])
		switch rest := name[end:]; {
		case rest == "" && set, strings.HasPrefix(rest, "?") && set, strings.HasPrefix(rest, ":?") && value != "":
			return value
		case strings.HasPrefix(rest, ":-"):
			if value == "" {
				return rest[2:]
			}
			return value
		case strings.HasPrefix(rest, "-"):
			if !set {
				return rest[1:]
			}
			return value
		}
		bad = name[:end]
		return ""
	})
	if bad != "" {
		return "", fmt.Errorf("the variable %s isn't set here, so what it stands for can't be judged: set it for this command too", printable(bad))
	}
	return out, nil
}
