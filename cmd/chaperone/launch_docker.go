package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"chaperone/internal/refusal"
)

// dockerHost finds out which Docker engine the client here would talk to, the way
// the client does: $DOCKER_HOST, else the context of $DOCKER_CONTEXT or of the
// client's configuration. "" is the client's default.
func dockerHost() (host, from string) {
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		return host, "DOCKER_HOST"
	}
	dir := os.Getenv("DOCKER_CONFIG")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", ""
		}
		dir = filepath.Join(home, ".docker")
	}
	name := os.Getenv("DOCKER_CONTEXT")
	if name == "" {
		var config struct{ CurrentContext string }
		data, err := os.ReadFile(filepath.Join(dir, "config.json"))
		if err == nil && json.Unmarshal(data, &config) == nil { // the client says what is wrong with its own file
			name = config.CurrentContext
		}
	}
	if name == "" || name == "default" {
		return "", ""
	}
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	id := sha256.Sum256([]byte(name))
	data, err := os.ReadFile(filepath.Join(dir, "contexts", "meta", hex.EncodeToString(id[:]), "meta.json"))
	if err != nil || json.Unmarshal(data, &meta) != nil || strings.HasPrefix(name, "desktop-") {
		return name, "the Docker context " + name
	}
	return meta.Endpoints["docker"].Host, "the Docker context " + name
}

// forwarded refuses an engine that runs on another machine, virtual ones
// included: a Unix socket of this one can't be mounted there, and no forwarding
// of it is qualified.
func forwarded() error {
	host, from := dockerHost()
	if host == "" {
		host, from = "unix:///var/run/docker.sock", "Docker's usual socket"
	}
	u, err := url.Parse(host)
	if err != nil || u.Scheme != "unix" {
		return forwarding(from, "names no engine of this machine")
	}
	socket := u.Path
	if real, err := filepath.EvalSymlinks(socket); err == nil {
		socket = real
	}
	if strings.Contains(socket, "/.docker/desktop/") || strings.Contains(socket, "docker-desktop") || desktopInWSL() {
		return forwarding(from, "is Docker Desktop's, whose containers run in a virtual machine")
	}
	return nil
}

// desktopInWSL tells whether this is a WSL system that Docker Desktop serves: its
// engine then answers on the usual socket.
func desktopInWSL() bool {
	_, err := os.Stat("/mnt/wsl/docker-desktop")
	return err == nil
}

func forwarding(from, why string) error {
	return exit(exitPrerequisite, fmt.Errorf("%s %s: the browser's socket can't be mounted there, and forwarding it isn't qualified; "+
		"use a Docker engine on this Linux (docker context use default), or start the agent server here with -- CMD: %w",
		printable(from), why, refusal.PrerequisiteMissing))
}

// rootless tells whether the engine is a user's own, whose root is that user.
func rootless() bool {
	host, _ := dockerHost()
	return strings.HasPrefix(host, "unix:///run/user/")
}
