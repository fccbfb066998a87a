package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/ownedv1"
)

// overrideFile is all that an override may say, in the long syntax of Compose's
// specification; anything else in one is a fault.
type overrideFile struct {
	Services map[string]struct {
		Volumes []overrideVolume `yaml:"volumes"`
	} `yaml:"services"`
}

type overrideVolume struct {
	Type     string `yaml:"type"`
	Source   string `yaml:"source"`
	Target   string `yaml:"target"`
	ReadOnly bool   `yaml:"read_only"`
	Bind     struct {
		Create *bool `yaml:"create_host_path"`
	} `yaml:"bind"`
}

func overrideOf(t *testing.T, path string) overrideFile {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var o overrideFile
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&o); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return o
}

// wantOverride wants exactly these mounts for exactly one service.
func wantOverride(t *testing.T, path, service string, mounts map[string]string) {
	t.Helper()
	o := overrideOf(t, path)
	got := map[string]string{}
	for _, v := range o.Services[service].Volumes {
		if v.Type != "bind" || !v.ReadOnly || v.Bind.Create == nil || *v.Bind.Create {
			t.Errorf("%s: %+v is no read-only bind of what is there", path, v)
		}
		got[v.Target] = v.Source
	}
	if diff := cmp.Diff(mounts, got); diff != "" || len(o.Services) != 1 {
		t.Errorf("%s: %d services\n%s", path, len(o.Services), diff)
	}
}

func (g ground) compose(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return g.said(t, append([]string{"launch", "--engagement", "acme-2026", "--service", "langgraph"}, args...)...)
}

func (g ground) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(g.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLaunchCompose(t *testing.T) {
	t.Parallel()
	g := newGround(t, os.Geteuid())
	odd := g.dir + "/a $HOME: \"b\"\n- c"
	if err := os.Mkdir(odd, 0o700); err != nil {
		t.Fatal(err)
	}
	out := g.dir + "/over ride.yaml"
	code, line, errs := g.compose(t, "--browser-registrations", odd, "--compose-out", out)
	if code != 0 || line != "docker compose -f compose.yaml -f '"+out+"' up\n" || !strings.Contains(errs, "no Compose file was found") {
		t.Fatalf("exit %d, printed %q, said %q", code, line, errs)
	}
	wantOverride(t, out, "langgraph", map[string]string{"/run/chaperone/browser-runs": strings.ReplaceAll(odd, "$", "$$")})

	// The project's own files are found as Compose finds them, and stay first.
	g.write(t, "compose.yaml", "services:\n  langgraph:\n    image: x\n    user: \""+fmt.Sprint(os.Geteuid())+":0\"\n    volumes: [\"./work:/workspace\", data:/data, /anonymous]\n  kali: {image: y, volumes: [./work:/workspace]}\nvolumes: {data: }\n")
	g.write(t, "compose.override.yml", "services:\n  langgraph:\n    environment: {MODEL: m}\n")
	code, line, errs = g.compose(t, "--json", "--browser-registrations", g.regs, "--compose-out", out)
	var told struct {
		File    string
		Command []string
	}
	if err := json.Unmarshal([]byte(line), &told); err != nil || code != 0 || errs != "" {
		t.Fatalf("exit %d, %v: %s%s", code, err, line, errs)
	}
	if diff := cmp.Diff([]string{"docker", "compose", "-f", "compose.yaml", "-f", "compose.override.yml", "-f", out, "up"}, told.Command); diff != "" || told.File != out {
		t.Error(diff)
	}
	wantOverride(t, out, "langgraph", map[string]string{"/run/chaperone/browser-runs": g.regs})
	if left, _ := filepath.Glob(g.dir + "/.chaperone-*"); len(left) > 0 {
		t.Errorf("drafts left: %v", left)
	}

	// What other files say can't be judged here, and that is told.
	partial := g.write(t, "partial.yaml", "include: [other.yaml]\n")
	code, _, errs = g.compose(t, "--browser-registrations", g.regs, "--compose-out", out, "--compose-file", partial)
	if code != 0 || !strings.Contains(errs, "takes in other files") {
		t.Errorf("exit %d, said %q", code, errs)
	}

	// One descriptor is two mounts, and its credential is in neither.
	path := published(t, g, func(*ownedv1.Descriptor) {})
	if code, _, errs = g.compose(t, "--browser-descriptor", path, "--compose-out", out); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	wantOverride(t, out, "langgraph", map[string]string{"/run/chaperone/browser.json": path, "/run/chaperone/browser.sock": filepath.Dir(path) + "/browser.sock"})
	if data, err := os.ReadFile(out); err != nil || bytes.Contains(data, []byte(tokenIn(t, path))) {
		t.Errorf("%v: the override tells the credential", err)
	}
}

// A file that a launch didn't write is left as it is.
func TestLaunchKeepsOthersFiles(t *testing.T) {
	t.Parallel()
	g := newGround(t, os.Geteuid())
	theirs := g.write(t, "theirs.yaml", "services: {}\n")
	link := g.dir + "/link.yaml"
	if err := os.Symlink(theirs, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{theirs, link, g.home} {
		code, out, errs := g.compose(t, "--browser-registrations", g.regs, "--compose-out", path)
		if code != 2 || out != "" {
			t.Errorf("%s: exit %d, printed %q", path, code, out)
		}
		want(t, path, errs, "is there and not from chaperone launch")
	}
	if data, _ := os.ReadFile(theirs); string(data) != "services: {}\n" {
		t.Errorf("it is %q now", data)
	}
	code, _, errs := g.compose(t, "--browser-registrations", g.regs, "--compose-out", g.dir+"/none/o.yaml")
	if code != 2 {
		t.Errorf("exit %d", code)
	}
	want(t, "no folder", errs, "can't write .*none/o.yaml")
}

// What the project's files say mustn't show the registrations to anybody else.
func TestLaunchProjects(t *testing.T) {
	t.Parallel()
	g := newGround(t, os.Geteuid())
	in := filepath.Dir(g.regs)
	for name, c := range map[string]struct{ want, text string }{
		"another service's volume": {"service kali: .* overlap", "services: {langgraph: {}, kali: {volumes: ['" + in + ":/x:ro']}}"},
		"its own workspace":        {"service langgraph: .* overlap", "services: {langgraph: {volumes: ['" + in + ":/workspace']}}"},
		"in the long form":         {"service langgraph: .* overlap", "services: {langgraph: {volumes: [{type: bind, source: ., target: /workspace}]}}"},
		"a variable":               {"service langgraph: .* overlap", "services: {langgraph: {volumes: ['${CHAPERONE_TEST_NONE:-" + in + "}:/workspace']}}"},
		"the home":                 {"service kali: .* overlap", "services: {langgraph: {}, kali: {volumes: ['~:/x']}}"},
		"a bind in disguise":       {"service kali: .* overlap", "services: {langgraph: {}, kali: {volumes: ['v:/x']}}\nvolumes: {v: {driver_opts: {type: none, o: bind, device: " + g.dir + "}}}"},
		"tagged":                   {"service langgraph: .* overlap", "services:\n  langgraph:\n    volumes: !override\n      - " + in + ":/workspace\n"},
		"merged":                   {"service kali: .* overlap", "x-all: &all\n  volumes: ['" + in + ":/x']\nservices:\n  langgraph: {}\n  kali:\n    <<: *all\n"},
		"an unknown variable":      {"the variable CHAPERONE_TEST_NONE isn't set here", "services: {langgraph: {volumes: ['${CHAPERONE_TEST_NONE}:/workspace']}}"},
		"volumes_from":             {"as a second service it would get the mount", "services: {langgraph: {}, kali: {volumes_from: ['langgraph:ro']}}"},
		"the place is taken":       {"mounts something at /run/chaperone/browser-runs already", "services: {langgraph: {volumes: ['v:/run/chaperone/browser-runs/']}}"},
		"a third user":             {"it runs as uid 4242, and the registrations belong to uid", "services: {langgraph: {user: 4242}}"},
		"a third user, in text":    {"it runs as uid 4242", "services: {langgraph: {user: '4242:0'}}"},
		"a user's name":            {"its number can't be known here", "services: {langgraph: {user: node}}"},
		"no such service":          {"no service langgraph in", "services: {agent: {}}"},
		"no YAML":                  {`Compose file .*: \[1:`, "services: ["},
	} {
		path := g.write(t, "compose.yaml", c.text)
		code, out, errs := g.compose(t, "--browser-registrations", g.regs, "--compose-out", g.dir+"/o.yaml", "--compose-file", path)
		if code != 2 || out != "" {
			t.Errorf("%s: exit %d, printed %q", name, code, out)
		}
		want(t, name, errs, c.want)
	}
	if _, err := os.Lstat(g.dir + "/o.yaml"); err == nil {
		t.Error("a refused launch wrote a file")
	}
}

// An engine that isn't on this machine is refused with the reason.
func TestLaunchForwarding(t *testing.T) {
	t.Parallel()
	g := newGround(t, os.Geteuid())
	context := func(name, host string) {
		id := sha256.Sum256([]byte(name))
		g.write(t, ".docker/contexts/meta/"+hex.EncodeToString(id[:])+"/meta.json", `{"Name":"`+name+`","Endpoints":{"docker":{"Host":"`+host+`"}}}`)
	}
	context("away", "ssh://there")
	context("here", "unix:///run/docker.sock")
	context("disguised", "unix://"+g.dir+"/.docker/desktop/docker.sock")
	for _, c := range []struct {
		env, current string
		want         string // "" is accepted
	}{
		{"", "", ""},
		{"DOCKER_HOST=unix:///var/run/docker.sock", "desktop-linux", ""},
		{"DOCKER_HOST=unix://" + g.dir + "/.docker/desktop/docker.sock", "", "DOCKER_HOST is Docker Desktop's"},
		{"DOCKER_HOST=tcp://127.0.0.1:2375", "", "DOCKER_HOST names no engine of this machine"},
		{"DOCKER_HOST=npipe:////./pipe/docker_engine", "", "DOCKER_HOST names no engine of this machine"},
		{"DOCKER_CONTEXT=away", "", "the Docker context away names no engine"},
		{"DOCKER_CONTEXT=default", "away", ""},
		{"", "desktop-linux", "the Docker context desktop-linux"},
		{"", "disguised", "the Docker context disguised is Docker Desktop's"},
		{"", "here", ""},
	} {
		g.write(t, ".docker/config.json", `{"currentContext":"`+c.current+`"}`)
		cmd := g.command(t, "launch", "--engagement", "e", "--browser-registrations", g.regs, "--compose-out", g.dir+"/o.yaml", "--service", "langgraph")
		cmd.Env = append(cmd.Env, c.env)
		code, _, errs := outcomeOf(t, cmd)
		if wanted := map[bool]int{true: 0, false: exitPrerequisite}[c.want == ""]; code != wanted {
			t.Errorf("%s, %s: exit %d, want %d: %s", c.env, c.current, code, wanted, errs)
		}
		want(t, c.env, errs, c.want)
		if c.want != "" {
			want(t, c.env, errs, "can't be mounted there, and forwarding it isn't qualified")
		}
	}
	// A rootless engine's other users are other users of this machine too.
	file := g.write(t, "compose.yaml", "services: {langgraph: {user: '1000'}}")
	cmd := g.command(t, "launch", "--engagement", "e", "--browser-registrations", g.regs, "--compose-out", g.dir+"/o.yaml", "--service", "langgraph", "--compose-file", file)
	cmd.Env = append(cmd.Env, "DOCKER_HOST=unix:///run/user/1000/docker.sock")
	if code, _, errs := outcomeOf(t, cmd); code != 2 || !strings.Contains(errs, "of a rootless engine") {
		t.Errorf("rootless: exit %d: %s", code, errs)
	}
}
