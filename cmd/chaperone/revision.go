package main

import (
	"runtime/debug"

	"chaperone/internal/owned/host"
)

// revision is the build's own revision as a person should read it: the commit,
// and whether the build was unstamped or made of changed sources, since a figure
// of such a build can't be traced to a commit.
func revision() string {
	commit, err := host.Commit()
	if err != nil {
		return "unknown"
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return commit + " (unstamped)"
	}
	stamped := false
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			stamped = true
		case s.Key == "vcs.modified" && s.Value == "true":
			return commit + " (dirty)"
		}
	}
	if !stamped {
		return commit + " (unstamped)"
	}
	return commit
}
